import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;

import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.cql3.UntypedResultSet;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.service.EmbeddedCassandraService;
import org.apache.cassandra.service.StorageService;

/**
 * An embedded node that makes tables by CQL, takes SSTables in with extended verification, and answers
 * queries.
 *
 * Reads schema.cql (a statement a line), imports.txt (keyspace, table and directory, tabs between) and
 * queries.txt (file of the answer, statement and a line to write before its rows, tabs between); writes
 * imports.out and the answers.
 */
public final class Node {
    public static void main(String[] arguments) throws Exception {
        Path work = Path.of(arguments[0]);
        new EmbeddedCassandraService().start();
        for (String statement : Files.readAllLines(work.resolve("schema.cql"))) {
            QueryProcessor.process(statement, ConsistencyLevel.ONE);
        }
        try (PrintStream out = output(work.resolve("imports.out"))) {
            for (String line : Files.readAllLines(work.resolve("imports.txt"))) {
                String[] part = line.split("\t");
                var table = Keyspace.open(part[0]).getColumnFamilyStore(part[1]);
                boolean resetLevel = false, clearRepaired = false, verify = true, verifyTokens = true;
                boolean invalidateCaches = true, extended = true, copy = true;
                String said;
                try {
                    List<String> refused = table.importNewSSTables(Set.of(part[2]), resetLevel,
                            clearRepaired, verify, verifyTokens, invalidateCaches, extended, copy);
                    said = refused.isEmpty() ? "accepted" : "refused";
                } catch (Exception error) {
                    said = "refused: " + error;
                }
                out.println(part[1] + "\t" + said + "\t" + table.getLiveSSTables().size());
            }
        }
        PrintStream out = null;
        String open = null;
        for (String line : Files.readAllLines(work.resolve("queries.txt"))) {
            String[] part = line.split("\t");
            if (!part[0].equals(open)) {
                if (out != null) {
                    out.close();
                }
                open = part[0];
                out = output(work.resolve(open));
            }
            if (part.length > 2) {
                out.println(part[2]);
            }
            try {
                for (UntypedResultSet.Row row : QueryProcessor.process(part[1], ConsistencyLevel.ONE)) {
                    out.println(row.getString("[json]"));
                }
            } catch (Exception error) {
                out.println("error: " + part[1] + ": " + error);
            }
        }
        if (out != null) {
            out.close();
        }
        // What is in memory goes to disk, so that the offline tools see the schema.
        StorageService.instance.drain();
    }

    private static PrintStream output(Path path) throws Exception {
        return new PrintStream(Files.newOutputStream(path), false, StandardCharsets.UTF_8);
    }
}
