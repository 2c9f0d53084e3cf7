// A statement and its result by JDBC: `tidegate serve`, then this with its address.
//
// Usage: java --add-opens=java.base/java.nio=ALL-UNNAMED -cp flight-sql-jdbc-driver-18.3.0.jar \
//        Query.java [--user NAME] [--authority CA.pem] [--certificate OWN.pem --key OWN.key] \
//        HOST:PORT STATEMENT
// The password of the user is in the variable TIDEGATE_PASSWORD. A file of the authority means TLS.
// The driver is org.apache.arrow:flight-sql-jdbc-driver of Maven Central.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import java.util.logging.LogManager;

public class Query {
    public static void main(String[] arguments) {
        if (arguments.length < 2) {
            System.err.println("usage: Query.java [OPTION VALUE]... HOST:PORT STATEMENT");
            System.exit(2);
        }
        // The driver logs whatever it meets, with stacks of a page each.
        LogManager.getLogManager().reset();
        try (Connection connection = connect(arguments);
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(arguments[arguments.length - 1])) {
            print(rows);
        } catch (SQLException error) {
            System.err.println("error: " + message(error));
            System.exit(1);
        }
        System.exit(0);
    }

    /** A connection as the options say. */
    static Connection connect(String[] arguments) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("useEncryption", "false");
        int options = arguments.length - 2;
        for (int n = 0; n < options; n += 2) {
            String value = arguments[n + 1];
            switch (arguments[n]) {
                case "--user" -> {
                    properties.setProperty("user", value);
                    properties.setProperty("password", System.getenv().getOrDefault("TIDEGATE_PASSWORD", ""));
                }
                case "--authority" -> {
                    properties.setProperty("useEncryption", "true");
                    properties.setProperty("tlsRootCerts", value);
                }
                case "--certificate" -> properties.setProperty("clientCertificate", value);
                case "--key" -> properties.setProperty("clientKey", value);
                default -> throw new SQLException("unknown option " + arguments[n]);
            }
        }
        String url = "jdbc:arrow-flight-sql://" + arguments[options];
        return DriverManager.getConnection(url, properties);
    }

    static void print(ResultSet rows) throws SQLException {
        ResultSetMetaData columns = rows.getMetaData();
        StringBuilder line = new StringBuilder();
        for (int n = 1; n <= columns.getColumnCount(); n++) {
            line.append(n == 1 ? "" : "\t").append(columns.getColumnLabel(n));
        }
        System.out.println(line);
        while (rows.next()) {
            line.setLength(0);
            for (int n = 1; n <= columns.getColumnCount(); n++) {
                line.append(n == 1 ? "" : "\t").append(rows.getObject(n));
            }
            System.out.println(line);
        }
    }

    /** What went wrong: the last of the causes has the service's words. */
    static String message(Throwable error) {
        while (error.getCause() != null) {
            error = error.getCause();
        }
        return error.getMessage();
    }
}
