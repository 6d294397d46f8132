import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/** The benchmark's join of streams as a program of Kafka Streams, with exactly-once and else as it is by default. */
public class StreamJoin {
    public static class View { public String id; public String page; }

    public static class Click { public String id; public int amount; }

    public static class Joined {
        public String view;
        public String click;
        public int amount;

        public Joined() { }

        Joined(View left, Click right) {
            view = left.id;
            click = right.id;
            amount = right.amount;
        }
    }

    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final LongAdder IN = new LongAdder();
    private static final LongAdder OUT = new LongAdder();

    private static <T> Serde<T> json(Class<T> type) {
        final ObjectReader reader = MAPPER.readerFor(type);
        final ObjectWriter writer = MAPPER.writerFor(type);
        return Serdes.serdeFrom((topic, value) -> {
            try {
                return value == null ? null : writer.writeValueAsBytes(value);
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        }, (topic, data) -> {
            try {
                return data == null ? null : reader.readValue(data);
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        });
    }

    private static <T> KStream<String, T> stream(StreamsBuilder builder, String topic, Class<T> type) {
        return builder.stream(topic, Consumed.with(Serdes.String(), json(type)).withTimestampExtractor((record, time) -> {
            IN.increment();
            return record.timestamp();
        }));
    }

    public static void main(String[] given) throws Exception {
        final Map<String, String> options = new HashMap<>();
        for (int i = 0; i + 1 < given.length; i += 2) options.put(given[i].substring(2), given[i + 1]);
        final String[] topics = options.get("in-topic").split(",");
        final String sink = options.get("out-topic");
        final long records = Long.parseLong(options.get("records"));

        final Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "ks-" + sink);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.get("bootstrap"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, options.get("work") + "/state");
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put("auto.offset.reset", "earliest");

        final StreamsBuilder builder = new StreamsBuilder();
        final JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(10));
        stream(builder, topics[0], View.class)
            .join(stream(builder, topics[1], Click.class), Joined::new, windows,
                StreamJoined.with(Serdes.String(), json(View.class), json(Click.class)))
            .peek((key, value) -> OUT.increment())
            .to(sink, Produced.with(Serdes.String(), json(Joined.class)));

        final AtomicReference<Throwable> failure = new AtomicReference<>();
        final KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            failure.set(error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        long before = -1;
        for (int quiet = 0; failure.get() == null && quiet < 3; ) {
            final long now = IN.sum() + OUT.sum();
            quiet = now == before && IN.sum() >= records ? quiet + 1 : 0;
            before = now;
            Thread.sleep(100);
        }
        streams.close(Duration.ofSeconds(60));
        System.out.println("{\"ok\":" + (failure.get() == null) + ",\"records\":" + IN.sum() + "}");
        System.out.flush();
        Runtime.getRuntime().halt(failure.get() == null ? 0 : 1);
    }
}
