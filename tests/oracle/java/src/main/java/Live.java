import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * Runs cases on a broker, exactly once: {@code java Live HOST:PORT FOLDER}, with a JSON array of cases on standard input, each
 * with its application id as its name. All inputs are written first. A line for each case says its name and what went wrong.
 */
public class Live {
    private static final long QUIET = TimeUnit.MILLISECONDS.toNanos(2_000);
    private static final long PATIENCE = TimeUnit.SECONDS.toNanos(120);

    private final String name;
    private final KafkaStreams streams;
    private final long records;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private double seen = -1;
    private long since = System.nanoTime();

    Live(final JsonNode one, final KafkaProducer<byte[], byte[]> producer, final Properties more) {
        name = one.get("name").asText();
        final Properties p = Oracle.properties(one.get("config"), Path.of(more.getProperty(StreamsConfig.STATE_DIR_CONFIG)));
        more.forEach(p::put);
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        final Oracle.Build build = new Oracle.Build(p);
        one.get("topology").forEach(build::step);
        long count = 0;
        for (final JsonNode in : one.get("input")) {
            final String topic = in.get("topic").asText();
            final Fns.Type[] types = build.inputs.get(topic);
            final byte[] key = Oracle.serde(types[0]).serializer().serialize(topic, Oracle.input(in, "key", build, 0));
            final byte[] value = Oracle.serde(types[1]).serializer().serialize(topic, Oracle.input(in, "value", build, 1));
            producer.send(new ProducerRecord<>(topic, 0, in.get("timestamp").asLong(), key, value));
            count++;
        }
        records = count;
        streams = new KafkaStreams(build.topology(p), p);
        streams.setUncaughtExceptionHandler(error -> {
            failure.set(error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    }

    /** Whether it has processed everything, or will not. */
    private boolean isDone() {
        final double now = streams.metrics().values().stream()
            .filter(m -> m.metricName().name().equals("process-total") && m.metricName().group().equals("stream-thread-metrics"))
            .mapToDouble(m -> ((Number) m.metricValue()).doubleValue()).sum();
        if (now != seen || now < records) {
            since = now != seen ? System.nanoTime() : since;
            seen = now;
        }
        final long quiet = System.nanoTime() - since;
        return failure.get() != null || quiet > (now >= records ? QUIET : PATIENCE);
    }

    public static void main(final String[] args) throws Exception {
        final Properties more = new Properties();
        more.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        more.put(StreamsConfig.STATE_DIR_CONFIG, args[1]);
        more.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "1");
        more.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        more.put(StreamsConfig.METRICS_RECORDING_LEVEL_CONFIG, "INFO");
        more.put("auto.offset.reset", "earliest");
        final ObjectMapper mapper = new ObjectMapper();
        final List<Live> all = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(Map.of("bootstrap.servers", args[0]),
                new ByteArraySerializer(), new ByteArraySerializer())) {
            for (final JsonNode one : mapper.readTree(System.in)) {
                all.add(new Live(one, producer, more));
            }
            producer.flush();
        }
        all.forEach(one -> one.streams.start());
        for (final Live one : all) {
            while (!one.isDone()) {
                Thread.sleep(100);
            }
            one.streams.close(Duration.ofSeconds(30));
            final boolean isShort = one.failure.get() == null && one.seen < one.records;
            final String error = isShort ? one.seen + " of " + one.records + " records" : String.valueOf(one.failure.get());
            System.out.println(mapper.writeValueAsString(Map.of("name", one.name, "error", error)));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
