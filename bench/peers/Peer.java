import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
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
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The benchmark's jobs that the peers' harness does not have, as a program of Kafka Streams, with exactly-once and else as
 * it is by default but for {@code --opt cache=BYTES}: JOIN, SLIDE, W10, W11 and MEAN.
 */
public class Peer {
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

    @JsonIgnoreProperties(ignoreUnknown = true)
    public static class Event { public String id; public int amount; }

    public static class Total {
        public long n;
        public long sum;

        Total with(Event event) {
            n += 1;
            sum += event.amount;
            return this;
        }
    }

    public static class Mean {
        public double mean;
        public long n;

        public Mean() { }

        Mean(Total total) {
            mean = (double) total.sum / total.n;
            n = total.n;
        }
    }

    /** W10: counts the records of each key, with a get, a put and a forward for each. */
    static class Counter extends ContextualProcessor<String, byte[], String, String> {
        private KeyValueStore<String, Long> counts;

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            counts = context.getStateStore("counts");
        }

        @Override
        public void process(Record<String, byte[]> record) {
            final Long before = counts.get(record.key());
            final long count = before == null ? 1 : before + 1;
            counts.put(record.key(), count);
            context().forward(record.withValue("{\"n\":" + count + "}"));
        }
    }

    /** W11: the same in windows of a minute, and a record each second of stream time. */
    static class WindowCounter extends ContextualProcessor<String, byte[], String, String> {
        private WindowStore<String, Long> counts;

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            counts = context.getStateStore("counts");
            context.schedule(Duration.ofSeconds(1), PunctuationType.STREAM_TIME,
                time -> context.forward(new Record<>("tick", "{\"w\":0,\"n\":0}", time)));
        }

        @Override
        public void process(Record<String, byte[]> record) {
            final long start = record.timestamp() - record.timestamp() % MINUTE.toMillis();
            final Long before = counts.fetch(record.key(), start);
            final long count = before == null ? 1 : before + 1;
            counts.put(record.key(), count, start);
            context().forward(record.withValue("{\"w\":" + start + ",\"n\":" + count + "}"));
        }
    }

    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration TEN_SECONDS = Duration.ofSeconds(10);
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

    private static <T> Consumed<String, T> consumed(Serde<T> value) {
        return Consumed.with(Serdes.String(), value).withTimestampExtractor((record, time) -> {
            IN.increment();
            return record.timestamp();
        });
    }

    private static <T> KStream<String, T> stream(StreamsBuilder builder, String topic, Class<T> type) {
        return builder.stream(topic, consumed(json(type)));
    }

    private static KStream<String, byte[]> bytes(StreamsBuilder builder, String topic) {
        return builder.stream(topic, consumed(Serdes.ByteArray()));
    }

    private static <T> void write(KStream<String, T> results, String sink, Serde<T> value) {
        results.peek((key, result) -> OUT.increment()).to(sink, Produced.with(Serdes.String(), value));
    }

    private static void join(StreamsBuilder builder, String[] topics, String sink) {
        write(stream(builder, topics[0], View.class)
            .join(stream(builder, topics[1], Click.class), Joined::new,
                JoinWindows.ofTimeDifferenceAndGrace(TEN_SECONDS, TEN_SECONDS),
                StreamJoined.with(Serdes.String(), json(View.class), json(Click.class))), sink, json(Joined.class));
    }

    private static void slide(StreamsBuilder builder, String[] topics, String sink) {
        write(bytes(builder, topics[0]).groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(TEN_SECONDS, TEN_SECONDS))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .map((key, count) -> KeyValue.pair(key.key(), "{\"w\":" + key.window().start() + ",\"n\":" + count + "}")),
            sink, Serdes.String());
    }

    private static void mean(StreamsBuilder builder, String[] topics, String sink) {
        write(stream(builder, topics[0], Event.class).groupByKey(Grouped.with(Serdes.String(), json(Event.class)))
            .windowedBy(TimeWindows.ofSizeAndGrace(MINUTE, TEN_SECONDS))
            .aggregate(Total::new, (key, event, total) -> total.with(event),
                Materialized.<String, Total, WindowStore<Bytes, byte[]>>as("totals")
                    .withKeySerde(Serdes.String()).withValueSerde(json(Total.class)))
            .mapValues(Mean::new)
            .toStream((key, found) -> key.key() + "@" + key.window().start()), sink, json(Mean.class));
    }

    private static void counter(StreamsBuilder builder, String[] topics, String sink) {
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("counts"), Serdes.String(), Serdes.Long()));
        write(bytes(builder, topics[0]).process(Counter::new, "counts"), sink, Serdes.String());
    }

    private static void windowCounter(StreamsBuilder builder, String[] topics, String sink) {
        builder.addStateStore(Stores.windowStoreBuilder(
            Stores.persistentWindowStore("counts", Duration.ofMinutes(20), MINUTE, false),
            Serdes.String(), Serdes.Long()));
        write(bytes(builder, topics[0]).process(WindowCounter::new, "counts"), sink, Serdes.String());
    }

    public static void main(String[] given) throws Exception {
        final Map<String, String> options = new HashMap<>();
        for (int i = 0; i + 1 < given.length; i += 2) {
            final String[] option = given[i + 1].split("=", 2);
            if (given[i].equals("--opt")) options.put(option[0], option[1]);
            else options.put(given[i].substring(2), given[i + 1]);
        }
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
        if (options.containsKey("cache")) {
            settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, options.get("cache"));
        }

        final StreamsBuilder builder = new StreamsBuilder();
        switch (options.get("workload")) {
            case "JOIN": join(builder, topics, sink); break;
            case "SLIDE": slide(builder, topics, sink); break;
            case "MEAN": mean(builder, topics, sink); break;
            case "W10": counter(builder, topics, sink); break;
            case "W11": windowCounter(builder, topics, sink); break;
            default: throw new IllegalArgumentException("no workload " + options.get("workload"));
        }

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
