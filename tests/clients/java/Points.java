// What the Flight SQL JDBC driver needs of the service: metadata, parameters, types, batches.
//
// Usage: java --add-opens=java.base/java.nio=ALL-UNNAMED -cp DRIVER.jar Points.java HOST:PORT
// The first step that fails ends the program.

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Time;
import java.sql.Timestamp;
import java.util.Arrays;
import java.util.Properties;

public class Points {
    interface Step {
        void run(Connection connection) throws Exception;
    }

    static String address;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        try (Connection connection = connect("")) {
            step("metadata", Points::metadata, connection);
            step("timestamps", Points::timestamps, connection);
            step("times of day", Points::times, connection);
            step("parameters", Points::parameters, connection);
            step("text", Points::text, connection);
            step("affected rows", Points::affectedRows, connection);
            step("long statements", Points::longStatements, connection);
            step("errors", Points::errors, connection);
        }
        System.out.println("all steps passed");
        System.exit(0);
    }

    static Connection connect(String more) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", "someone");
        properties.setProperty("password", "anything");
        String url = "jdbc:arrow-flight-sql://" + address + "?useEncryption=false" + more;
        return DriverManager.getConnection(url, properties);
    }

    static void step(String name, Step step, Connection connection) throws Exception {
        try {
            step.run(connection);
        } catch (Throwable error) {
            System.out.println("failed: " + name + ": " + error);
            error.printStackTrace(System.out);
            System.exit(1);
        }
        System.out.println("passed: " + name);
    }

    static void check(boolean isGood, Object shown) {
        if (!isGood) {
            throw new AssertionError(String.valueOf(shown));
        }
    }

    static void equal(Object wanted, Object found) {
        check(wanted == null ? found == null : wanted.equals(found), "wanted " + wanted + ", found " + found);
    }

    static void run(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    static Object one(Connection connection, String sql, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int n = 0; n < parameters.length; n++) {
                statement.setObject(n + 1, parameters[n]);
            }
            try (ResultSet rows = statement.executeQuery()) {
                check(rows.next(), "no row: " + sql);
                return rows.getObject(1);
            }
        }
    }

    // Every getter without arguments, as tools call them.
    static void metadata(Connection connection) throws Exception {
        DatabaseMetaData metadata = connection.getMetaData();
        int count = 0;
        for (Method method : DatabaseMetaData.class.getMethods()) {
            if (method.getParameterCount() > 0) {
                continue;
            }
            try {
                if (method.invoke(metadata) instanceof ResultSet rows) {
                    rows.close();
                }
                count++;
            } catch (InvocationTargetException error) {
                throw new AssertionError(method.getName(), error.getCause());
            }
        }
        check(count > 100, count);
        check(!metadata.supportsTransactions(), "there are no transactions");
    }

    static void timestamps(Connection connection) throws Exception {
        run(connection, "CREATE TABLE moments (k int PRIMARY KEY, ts timestamp)");
        run(connection, "INSERT INTO moments VALUES (1, '2024-05-06T07:08:09.123Z')");
        Object moment = one(connection, "SELECT ts FROM moments");
        equal(Timestamp.valueOf("2024-05-06 07:08:09.123"), moment);
        equal(1, one(connection, "SELECT k FROM moments WHERE ts = ?", moment));
        try (PreparedStatement insert =
                connection.prepareStatement("INSERT INTO moments VALUES (2, ?)")) {
            insert.setTimestamp(1, Timestamp.valueOf("2024-05-06 07:08:09.123"));
            equal(1, insert.executeUpdate());
        }
        equal(moment, one(connection, "SELECT ts FROM moments WHERE k = 2"));
        try (ResultSet columns = connection.getMetaData().getColumns(null, null, "moments", "ts")) {
            check(columns.next(), "no column");
            equal(java.sql.Types.TIMESTAMP, columns.getInt("DATA_TYPE"));
        }
        try (Connection zoned = connect("&result.timestamp=zone")) {
            try (Statement statement = zoned.createStatement();
                    ResultSet rows = statement.executeQuery("SELECT ts FROM moments WHERE k = 1")) {
                check(rows.next(), "no row");
                equal(1714979289123L, rows.getTimestamp(1).getTime());
            }
        }
    }

    static void times(Connection connection) throws Exception {
        run(connection, "CREATE TABLE times (k int PRIMARY KEY, at time)");
        Time time = Time.valueOf("12:34:56");
        try (PreparedStatement insert =
                connection.prepareStatement("INSERT INTO times VALUES (1, ?)")) {
            insert.setTime(1, time);
            equal(1, insert.executeUpdate());
        }
        equal("12:34:56", String.valueOf(one(connection, "SELECT CAST(at AS text) FROM times")));
        equal(1, one(connection, "SELECT k FROM times WHERE at = ?", time));
        equal("12:34:56", one(connection, "SELECT at FROM times").toString());
    }

    static void parameters(Connection connection) throws Exception {
        run(connection, "CREATE TABLE typed (k int PRIMARY KEY, s smallint, f float, d double, v text)");
        try (PreparedStatement insert =
                connection.prepareStatement("INSERT INTO typed VALUES (?, ?, ?, ?, ?)")) {
            for (int n = 0; n < 3; n++) {
                insert.setInt(1, n);
                insert.setInt(2, n);
                insert.setDouble(3, 0.1);
                insert.setDouble(4, 0.5);
                insert.setString(5, "v" + n);
                insert.addBatch();
            }
            // The driver sends a batch as one message and tells of all its rows together.
            equal(3, Arrays.stream(insert.executeBatch()).sum());
            insert.setInt(1, 9);
            insert.setInt(2, 40000);
            insert.setDouble(3, 0.1);
            insert.setDouble(4, 0.5);
            insert.setString(5, "large");
            try {
                insert.executeUpdate();
                throw new AssertionError("40000 is no smallint");
            } catch (SQLException error) {
                check(error.getMessage().contains("out of range"), error);
            }
        }
        equal(3L, one(connection, "SELECT count(*) FROM typed WHERE f = ?", 0.1));
        equal("x", one(connection, "SELECT ?", "x"));
        equal(8, ((Number) one(connection, "SELECT k + ? FROM typed WHERE k = 1", 7)).intValue());
        equal(7L, one(connection, "SELECT CAST(? AS bigint)", 7L));
        equal(1.5, one(connection, "SELECT coalesce(CAST(NULL AS double), ?)", 1.5));
    }

    static void text(Connection connection) throws Exception {
        equal("1", one(connection, "SELECT CAST(k AS text) FROM typed WHERE k = 1"));
        equal("V1", one(connection, "SELECT upper(v) FROM typed WHERE k = 1"));
        run(connection, "CREATE TABLE wide (k int PRIMARY KEY, v varint, span duration)");
        run(connection, "INSERT INTO wide VALUES (1, 12345678901234567890123, INTERVAL '2 days')");
        Object wide = one(connection, "SELECT v FROM wide");
        equal(new BigDecimal("12345678901234567890123"), wide);
        try (Connection other = connect("&result.varint=text&result.duration=text")) {
            equal("12345678901234567890123", one(other, "SELECT v FROM wide"));
            equal("2 days", one(other, "SELECT span FROM wide"));
        }
    }

    static void affectedRows(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            equal(3, statement.executeUpdate("INSERT INTO typed (k) VALUES (20), (21), (22)"));
            equal(0, statement.executeUpdate("CREATE TABLE counted (k int PRIMARY KEY)"));
        }
    }

    static void longStatements(Connection connection) throws Exception {
        equal(1L, one(connection, "SELECT " + "(".repeat(200) + "1" + ")".repeat(200)));
        String ors = "k = 0" + " OR k = 1".repeat(9999);
        equal(2L, one(connection, "SELECT count(*) FROM typed WHERE " + ors));
    }

    static void errors(Connection connection) throws Exception {
        for (String[] wrong : new String[][] {
            {"SELEC 1", "did you mean SELECT"},
            {"SELECT * FROM absent", "does not exist"},
            {"BEGIN", "not offered"},
        }) {
            try {
                one(connection, wrong[0]);
                throw new AssertionError("it was not refused: " + wrong[0]);
            } catch (SQLException error) {
                check(reasons(error).contains(wrong[1]), reasons(error));
            }
        }
    }

    // An error's text and those of its causes.
    static String reasons(Throwable error) {
        return error == null ? "" : error.getMessage() + " " + reasons(error.getCause());
    }
}
