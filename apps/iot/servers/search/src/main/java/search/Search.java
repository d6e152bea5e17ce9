package search;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** One node of OpenSearch on loopback: {@code Search FOLDER PORT TRANSPORT_PORT}. It ends with its process. */
final class Search extends Node {

    /** Its distribution has the module by which a node is asked as a folder; here it is on the class path. */
    private Search(Settings settings) {
        super(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "search"), List.of(Netty4Plugin.class), true);
    }

    public static void main(String[] arguments) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", Path.of(arguments[0]).toAbsolutePath().toString())
            .put("network.host", "127.0.0.1")
            .put("http.port", arguments[1])
            .put("transport.port", arguments[2])
            .put("discovery.type", "single-node")
            .put("cluster.routing.allocation.disk.threshold_enabled", false) // what is free on this disk is not its business
            .put("cluster.max_shards_per_node", 100_000) // an index for each sensor
            .build();
        Search node = new Search(settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (java.io.IOException e) {
                System.err.println("search: " + e);
            }
        }));
        node.start();
        new CountDownLatch(1).await();
    }
}
