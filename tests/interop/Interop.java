import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Permission;
import java.util.ArrayList;
import java.util.List;

/**
 * Everything that Cassandra says of files that another product wrote, in one process.
 *
 * Arguments: a directory to work in, and the class path of Cassandra. In the directory: what Node reads,
 * dumps.txt (Data.db files and where dump and metadata go, tabs between) and verify.txt (keyspace and
 * table). Written: the dumps, the metadata, verify.out. A node and the offline tools do not
 * live in one state, so that each has a class loader of its own; a tool that ends the process ends itself only.
 */
public final class Interop {
    private static final PrintStream OUT = System.out;
    private static final PrintStream ERR = System.err;

    public static void main(String[] arguments) throws Exception {
        Path work = Path.of(arguments[0]);
        List<URL> places = new ArrayList<>();
        for (String place : arguments[1].split(File.pathSeparator)) {
            places.add(new File(place).toURI().toURL());
        }
        step("node");
        ClassLoader node = loader(places);
        Thread.currentThread().setContextClassLoader(node);
        node.loadClass("Node").getMethod("main", String[].class)
                .invoke(null, (Object) new String[] {work.toString()});

        // Both loaders would register beans by the same names.
        System.setProperty("org.apache.cassandra.disable_mbean_registration", "true");
        ClassLoader tools = loader(places);
        Thread.currentThread().setContextClassLoader(tools);
        step("dump");
        for (String line : Files.readAllLines(work.resolve("dumps.txt"))) {
            String[] part = line.split("\t");
            Said dump = run(tools, "SSTableExport", part[0], "-t");
            Files.writeString(Path.of(part[1]), dump.out + (dump.status == 0 ? "" : "\n" + dump.err));
            Said metadata = run(tools, "SSTableMetadataViewer", part[0]);
            Files.writeString(Path.of(part[2]), metadata.out + metadata.err);
        }
        step("verify");
        StringBuilder verified = new StringBuilder();
        for (String line : Files.readAllLines(work.resolve("verify.txt"))) {
            String[] part = line.split("\t");
            Said said = run(tools, "StandaloneVerifier", "-f", "-e", part[0], part[1]);
            verified.append("> ").append(part[1]).append(' ').append(said.status).append('\n')
                    .append(said.out).append(said.err);
        }
        Files.writeString(work.resolve("verify.out"), verified.toString());
        step("done");
        // Threads of the node are still there.
        Runtime.getRuntime().halt(0);
    }

    private static long last = System.nanoTime();

    private static void step(String name) {
        long now = System.nanoTime();
        ERR.println("interop: after " + (now - last) / 1_000_000 + " ms: " + name);
        last = now;
    }

    private static ClassLoader loader(List<URL> places) {
        return new URLClassLoader(places.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
    }

    private record Said(int status, String out, String err) {}

    @SuppressWarnings("removal")
    private static Said run(ClassLoader tools, String tool, String... arguments) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        int status = 0;
        System.setSecurityManager(new NoExit());
        try {
            tools.loadClass("org.apache.cassandra.tools." + tool).getMethod("main", String[].class)
                    .invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            Throwable cause = error.getCause();
            while (cause.getCause() != null && !(cause instanceof Exit)) {
                cause = cause.getCause();
            }
            if (!(cause instanceof Exit exit)) {
                cause.printStackTrace(new PrintStream(err, true, StandardCharsets.UTF_8));
                status = 1;
            } else {
                status = exit.status;
            }
        } finally {
            System.setSecurityManager(null);
            System.out.flush();
            System.err.flush();
            System.setOut(OUT);
            System.setErr(ERR);
        }
        return new Said(status, out.toString(StandardCharsets.UTF_8), err.toString(StandardCharsets.UTF_8));
    }

    private static final class Exit extends SecurityException {
        private final int status;

        private Exit(int status) {
            super("exit " + status);
            this.status = status;
        }
    }

    @SuppressWarnings("removal")
    private static final class NoExit extends SecurityManager {
        @Override
        public void checkExit(int status) {
            throw new Exit(status);
        }

        @Override
        public void checkPermission(Permission permission) {}

        @Override
        public void checkPermission(Permission permission, Object context) {}
    }
}
