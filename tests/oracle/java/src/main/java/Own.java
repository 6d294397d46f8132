import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.VersionedBytesStore;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Suppliers of stores as users write them: classes that Kafka Streams does not know, and that keep their rows in a store
 * of its own: windows and sessions in memory unless the case names another one, versions in RocksDB, since it has none in
 * memory.
 */
final class Own {
    private Own() { }

    static boolean is(final JsonNode given) {
        return given != null && given.has("kind") && given.get("kind").asText().startsWith("own_");
    }

    static WindowBytesStoreSupplier windows(final String name, final JsonNode given) {
        final Duration retention = ms(given, "retention_ms");
        final Duration size = ms(given, "window_size_ms");
        final boolean duplicates = given.get("kind").asText().equals("own_duplicates");
        final WindowBytesStoreSupplier inner = switch (given.has("inner") ? given.get("inner").asText() : "in_memory") {
            case "persistent" -> Stores.persistentWindowStore(name, retention, size, duplicates);
            case "timestamped" -> Stores.persistentTimestampedWindowStore(name, retention, size, duplicates);
            default -> Stores.inMemoryWindowStore(name, retention, size, duplicates);
        };
        return new WindowBytesStoreSupplier() {
            public String name() { return name; }

            public WindowStore<Bytes, byte[]> get() { return wrapped(WindowStore.class, inner.get()); }

            public String metricsScope() { return "own-window"; }

            public long segmentIntervalMs() { return inner.segmentIntervalMs(); }

            public long windowSize() { return inner.windowSize(); }

            public boolean retainDuplicates() { return inner.retainDuplicates(); }

            public long retentionPeriod() { return inner.retentionPeriod(); }
        };
    }

    static SessionBytesStoreSupplier sessions(final String name, final JsonNode given) {
        final SessionBytesStoreSupplier inner = given.has("inner")
            ? Stores.persistentSessionStore(name, ms(given, "retention_ms")) : Stores.inMemorySessionStore(name, ms(given, "retention_ms"));
        return new SessionBytesStoreSupplier() {
            public String name() { return name; }

            public SessionStore<Bytes, byte[]> get() { return wrapped(SessionStore.class, inner.get()); }

            public String metricsScope() { return "own-session"; }

            public long segmentIntervalMs() { return inner.segmentIntervalMs(); }

            public long retentionPeriod() { return inner.retentionPeriod(); }
        };
    }

    static VersionedBytesStoreSupplier versions(final String name, final JsonNode given) {
        final VersionedBytesStoreSupplier inner = Stores.persistentVersionedKeyValueStore(name, ms(given, "history_retention_ms"));
        return new VersionedBytesStoreSupplier() {
            public String name() { return name; }

            public KeyValueStore<Bytes, byte[]> get() { return wrapped(VersionedBytesStore.class, inner.get()); }

            public String metricsScope() { return "own-versioned"; }

            public long historyRetentionMs() { return inner.historyRetentionMs(); }
        };
    }

    private static Duration ms(final JsonNode given, final String field) {
        return Duration.ofMillis(given.get(field).asLong());
    }

    @SuppressWarnings("unchecked")
    private static <T> T wrapped(final Class<?> shape, final Object inner) {
        final Class<?>[] shapes = inner instanceof TimestampedBytesStore
            ? new Class<?>[] {shape, TimestampedBytesStore.class} : new Class<?>[] {shape};
        return (T) Proxy.newProxyInstance(shape.getClassLoader(), shapes, (proxy, method, arguments) -> {
            try {
                return method.invoke(inner, arguments);
            } catch (final InvocationTargetException e) {
                throw e.getCause();
            }
        });
    }
}
