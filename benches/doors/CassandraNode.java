import org.apache.cassandra.service.EmbeddedCassandraService;

/** An embedded node that takes clients until its standard input ends. */
public final class CassandraNode {
    public static void main(String[] arguments) throws Exception {
        new EmbeddedCassandraService().start();
        System.out.println("serving");
        while (System.in.read() >= 0) {}
        // Nothing of it is wanted any more.
        Runtime.getRuntime().halt(0);
    }
}
