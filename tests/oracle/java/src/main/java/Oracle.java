import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs a case (a topology, a configuration and an input, as JSON) through the real Kafka Streams and writes down what
 * came out. README.md is the specification of the format.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public final class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    // ------------------------------------------------------------------ command line

    public static void main(final String[] args) throws Exception {
        final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        final List<String> rest = new ArrayList<>(List.of(args));
        final boolean check = rest.remove("--check");
        final boolean serve = rest.remove("--serve");
        final boolean describe = rest.remove("--describe");
        int status = 0;
        if (describe && !rest.isEmpty()) {
            out.println(describeAll(rest));
        } else if (!rest.isEmpty()) {
            for (final String dir : rest) {
                status |= folder(new File(dir), check, out);
            }
        } else if (serve) {
            final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                ObjectNode answer;
                try {
                    answer = fill((ObjectNode) JSON.readTree(line));
                } catch (final Fns.CaseError | IOException e) {
                    answer = NODES.objectNode().put("case_error", e.getMessage());
                }
                out.println(JSON.writeValueAsString(answer));
                out.flush();
            }
        } else {
            final JsonNode in = JSON.readTree(System.in);
            if (describe) {
                describe((ObjectNode) in, out);
            } else if (in.isArray()) {
                final List<String> cases = new ArrayList<>();
                for (final JsonNode one : in) {
                    cases.add(render(fill((ObjectNode) one)).strip());
                }
                out.println("[" + String.join(",\n", cases) + "]");
            } else {
                out.print(render(fill((ObjectNode) in)));
            }
        }
        out.flush();
        System.exit(status);
    }

    private static int folder(final File dir, final boolean check, final PrintStream out) throws IOException {
        final List<Path> files = new ArrayList<>();
        if (dir.isFile()) {
            files.add(dir.toPath());
        } else {
            try (Stream<Path> all = Files.list(dir.toPath())) {
                all.filter(p -> p.toString().endsWith(".json")).sorted().forEach(files::add);
            }
        }
        int bad = 0;
        final long start = System.nanoTime();
        for (final Path file : files) {
            final ObjectNode original = (ObjectNode) JSON.readTree(file.toFile());
            try {
                final ObjectNode filled = fill(original.deepCopy());
                if (!check) {
                    Files.writeString(file, render(filled));
                } else if (!JSON.readTree(render(filled)).equals(original)) {
                    bad++;
                    out.println("DIFFERS " + file);
                }
            } catch (final Fns.CaseError e) {
                bad++;
                out.println("BAD CASE " + file + ": " + e.getMessage());
            }
        }
        out.printf("%s: %d cases, %d bad, %.1f s%n", dir, files.size(), bad, (System.nanoTime() - start) / 1e9);
        out.flush();
        return bad == 0 ? 0 : 1;
    }

    /** One line for each step, input and output: small differences stay readable. */
    static String render(final ObjectNode node) throws IOException {
        final StringBuilder b = new StringBuilder();
        lines(b, node, "", 2);
        return b.append('\n').toString();
    }

    private static void lines(final StringBuilder b, final JsonNode n, final String indent, final int depth) throws IOException {
        final boolean open = depth > 0 && n.size() > 0
            && (n.isArray() && n.get(0).isContainerNode() || n.isObject() && (depth == 2 || hasContainers(n) || n.size() > 5));
        if (!open) {
            b.append(JSON.writeValueAsString(n).replace("\":", "\": ").replace("\": \":", "\":\":"));
            return;
        }
        b.append(n.isArray() ? "[\n" : "{\n");
        final Iterator<Map.Entry<String, JsonNode>> fields = n.fields();
        for (int i = 0; i < n.size(); i++) {
            b.append(indent).append(' ');
            if (n.isArray()) {
                b.append(JSON.writeValueAsString(n.get(i)));
            } else {
                final Map.Entry<String, JsonNode> f = fields.next();
                b.append(JSON.writeValueAsString(f.getKey())).append(": ");
                if (f.getValue().isArray() || f.getKey().equals("expected") || f.getKey().equals("stores")) {
                    lines(b, f.getValue(), indent + " ", f.getValue().isArray() ? 1 : 2);
                } else {
                    b.append(JSON.writeValueAsString(f.getValue()));
                }
            }
            b.append(i + 1 < n.size() ? ",\n" : "\n");
        }
        b.append(indent).append(n.isArray() ? ']' : '}');
    }

    private static boolean hasContainers(final JsonNode n) {
        for (final JsonNode child : n) {
            if (child.isContainerNode()) {
                return true;
            }
        }
        return false;
    }

    // ------------------------------------------------------------------ serdes and JSON values

    /** Types, and the JSON forms of keys. */
    static Serde<Object> serde(final Fns.Type type) {
        final Serde s = switch (type.kind()) {
            case "string" -> Serdes.String();
            case "long" -> Serdes.Long();
            case "time" -> new WindowedSerdes.TimeWindowedSerde(serde(type.inner()), type.size());
            case "session" -> new WindowedSerdes.SessionWindowedSerde(serde(type.inner()));
            default -> throw new IllegalStateException();
        };
        return s;
    }

    static JsonNode json(final Object o) {
        if (o == null) {
            return NODES.nullNode();
        }
        if (o instanceof Long n) {
            return NODES.numberNode(n);
        }
        if (o instanceof String s) {
            return NODES.textNode(s);
        }
        if (o instanceof Windowed<?> w) {
            final ObjectNode n = NODES.objectNode();
            n.set("key", json(w.key()));
            n.put("start", w.window().start());
            n.put("end", w.window().end());
            return n;
        }
        throw new IllegalStateException("a value of " + o.getClass());
    }

    /** Remembers every key that goes through it, for stores that cannot be listed. */
    private static Serde<Object> remembering(final Serde<Object> serde, final Map<Bytes, Object> seen) {
        final Serializer<Object> inner = serde.serializer();
        final Serializer<Object> serializer = (topic, key) -> {
            final byte[] bytes = inner.serialize(topic, key);
            if (bytes != null) {
                seen.put(new Bytes(bytes), key);
            }
            return bytes;
        };
        return Serdes.serdeFrom(serializer, serde.deserializer());
    }

    private record Bytes(byte[] bytes) implements Comparable<Bytes> {
        @Override
        public int compareTo(final Bytes other) {
            return Arrays.compareUnsigned(bytes, other.bytes);
        }
    }

    /** Notes the order in which records go to the output topics. */
    private static Serde<Object> noting(final Serde<Object> serde, final List<String> order) {
        final Serializer<Object> inner = serde.serializer();
        final Serializer<Object> serializer = new Serializer<>() {
            @Override
            public byte[] serialize(final String topic, final Object data) {
                return inner.serialize(topic, data);
            }

            @Override
            public byte[] serialize(final String topic, final Headers headers, final Object data) {
                order.add(topic);
                return inner.serialize(topic, headers, data);
            }
        };
        return Serdes.serdeFrom(serializer, serde.deserializer());
    }

    // ------------------------------------------------------------------ the topology

    /** What a step results in. */
    private record Node(Object it, Fns.Type key, Fns.Type value, Object windows, Integer unused) {
        Node(final Object it, final Fns.Type key, final Fns.Type value) {
            this(it, key, value, null, null);
        }

        Serde<Object> keySerde() {
            return serde(key);
        }

        Serde<Object> valueSerde() {
            return serde(value);
        }
    }

    static final class Build {
        final StreamsBuilder builder;
        final Map<String, Node> steps = new LinkedHashMap<>();
        final Map<String, Fns.Type[]> inputs = new LinkedHashMap<>();
        final Map<String, Node> outputs = new LinkedHashMap<>();
        final List<String> order = new ArrayList<>();
        final Map<String, Map<Bytes, Object>> stores = new LinkedHashMap<>();
        final List<String> joins = new ArrayList<>();

        Build(final Properties properties) {
            builder = new StreamsBuilder(new org.apache.kafka.streams.TopologyConfig(new StreamsConfig(properties)));
        }

        Node get(final JsonNode step, final String field) {
            if (!step.has(field)) {
                throw new Fns.CaseError(field + " is missing in " + step);
            }
            return get(step.get(field).asText());
        }

        Node get(final String id) {
            final Node n = steps.get(id);
            if (n == null) {
                throw new Fns.CaseError("no step " + id);
            }
            return n;
        }

        <T> T expect(final Node node, final Class<T> type, final JsonNode step) {
            if (!type.isInstance(node.it)) {
                throw new Fns.CaseError("not a " + type.getSimpleName() + " in " + step);
            }
            return (T) node.it;
        }

        void step(final JsonNode step) {
            final String id = step.get("id").asText();
            if (steps.containsKey(id)) {
                throw new Fns.CaseError("two steps " + id);
            }
            final Node node = switch (step.get("op").asText()) {
                case "stream" -> source(step, "stream");
                case "table" -> source(step, "table");
                case "global_table" -> source(step, "global_table");
                case "filter", "filter_not" -> filter(step);
                case "map" -> map(step);
                case "map_values" -> mapValues(step);
                case "flat_map" -> flatMap(step);
                case "flat_map_values" -> flatMapValues(step);
                case "select_key" -> selectKey(step);
                case "merge" -> merge(step);
                case "split" -> split(step);
                case "repartition" -> repartition(step);
                case "to" -> to(step);
                case "to_table" -> toTable(step);
                case "to_stream" -> toStream(step);
                case "group_by_key" -> groupByKey(step);
                case "group_by" -> groupBy(step);
                case "windowed_by" -> windowedBy(step);
                case "emit_strategy" -> emitStrategy(step);
                case "cogroup" -> cogroup(step);
                case "count", "reduce", "aggregate" -> aggregate(step);
                case "suppress" -> suppress(step);
                case "join", "left_join", "outer_join" -> join(step);
                case "add_store" -> addStore(step);
                case "process" -> process(step);
                case "process_values" -> processValues(step);
                case "transform_values" -> transformValues(step);
                case "add_source" -> addSource(step);
                case "add_processor" -> addProcessor(step);
                case "add_sink" -> addSink(step);
                default -> throw new Fns.CaseError("unknown op in " + step);
            };
            if (node != null) {
                steps.put(id, node);
            }
        }

        // ---- processors

        Topology topology;

        /** The topology, which steps by hand go on with. */
        Topology topology(final Properties properties) {
            if (topology == null) {
                topology = builder.build(properties);
            }
            return topology;
        }

        Node addStore(final JsonNode step) {
            final Fns.Type key = Fns.Type.named(step.has("key_type") ? step.get("key_type").asText() : "string");
            final Fns.Type value = Fns.Type.named(step.has("value_type") ? step.get("value_type").asText() : "string");
            final Map<Bytes, Object> seen = stores.computeIfAbsent(step.get("store").asText(), s -> new TreeMap<>());
            final org.apache.kafka.streams.state.StoreBuilder<?> store = Procs.store(step, remembering(serde(key), seen), serde(value));
            if (step.has("by_hand")) {
                final List<String> names = new ArrayList<>();
                step.get("by_hand").forEach(n -> names.add(n.asText()));
                topology(null).addStateStore(store, names.toArray(new String[0]));
            } else {
                builder.addStateStore(store);
            }
            return null;
        }

        static String[] connected(final JsonNode step) {
            final List<String> names = new ArrayList<>();
            if (step.has("stores")) {
                step.get("stores").forEach(n -> names.add(n.asText()));
            }
            return names.toArray(new String[0]);
        }

        Node process(final JsonNode step) {
            final Node of = get(step, "of");
            final JsonNode fn = step.get("processor");
            final KStream s = expect(of, KStream.class, step);
            final org.apache.kafka.streams.processor.api.ProcessorSupplier supplier = () -> Procs.processor(fn);
            final Object it = step.has("name")
                ? s.process(supplier, Named.as(step.get("name").asText()), connected(step)) : s.process(supplier, connected(step));
            return new Node(it, of.key, Procs.resultType(fn, of.value));
        }

        Node processValues(final JsonNode step) {
            final Node of = get(step, "of");
            final JsonNode fn = step.get("processor");
            final KStream s = expect(of, KStream.class, step);
            final org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier supplier = () -> Procs.fixedKeyProcessor(fn);
            final Object it = step.has("name")
                ? s.processValues(supplier, Named.as(step.get("name").asText()), connected(step)) : s.processValues(supplier, connected(step));
            return new Node(it, of.key, Procs.resultType(fn, of.value));
        }

        Node transformValues(final JsonNode step) {
            final Node of = get(step, "of");
            final KTable t = expect(of, KTable.class, step);
            final ValueTransformerWithKeySupplier supplier = Procs.transformer(step.get("transformer"));
            final Object it = step.has("materialized")
                ? t.transformValues(supplier, materialized(step, of.keySerde(), serde(Fns.Type.STRING)), connected(step))
                : t.transformValues(supplier, connected(step));
            return new Node(it, of.key, Fns.Type.STRING);
        }

        Node addSource(final JsonNode step) {
            final Fns.Type key = Fns.Type.named(step.has("key_type") ? step.get("key_type").asText() : "string");
            final Fns.Type value = Fns.Type.named(step.has("value_type") ? step.get("value_type").asText() : "string");
            inputs.put(step.get("topic").asText(), new Fns.Type[] {key, value});
            topology(null).addSource(step.get("id").asText(), serde(key).deserializer(), serde(value).deserializer(),
                step.get("topic").asText());
            return new Node(null, key, value);
        }

        static String[] parents(final JsonNode step) {
            final List<String> names = new ArrayList<>();
            step.get("of").forEach(n -> names.add(n.asText()));
            return names.toArray(new String[0]);
        }

        Node addProcessor(final JsonNode step) {
            final Node of = get(step.get("of").get(0).asText());
            final JsonNode fn = step.get("processor");
            final String id = step.get("id").asText();
            topology(null).addProcessor(id, () -> Procs.processor(fn), parents(step));
            if (step.has("stores")) {
                topology(null).connectProcessorAndStateStores(id, connected(step));
            }
            return new Node(null, of.key, Procs.resultType(fn, of.value));
        }

        Node addSink(final JsonNode step) {
            final Node of = get(step.get("of").get(0).asText());
            final String topic = step.get("topic").asText();
            topology(null).addSink(step.get("id").asText(), topic, of.keySerde().serializer(),
                noting(of.valueSerde(), order).serializer(), parents(step));
            outputs.put(topic, of);
            return null;
        }

        // ---- state

        Serde<Object> storeKeySerde(final JsonNode m, final Serde<Object> key) {
            if (m == null || !m.has("store")) {
                return key;
            }
            final Map<Bytes, Object> seen = stores.computeIfAbsent(m.get("store").asText(), s -> new TreeMap<>());
            return remembering(key, seen);
        }

        Materialized materialized(final JsonNode step, final Serde<Object> key, final Serde<Object> value) {
            final JsonNode m = step.get("materialized");
            final String store = m != null && m.has("store") ? m.get("store").asText() : null;
            final String kind = m != null && m.has("kind") ? m.get("kind").asText() : "persistent";
            Materialized result;
            if (Own.is(m)) {
                result = switch (kind) {
                    case "own_window" -> Materialized.as(Own.windows(store, m));
                    case "own_session" -> Materialized.as(Own.sessions(store, m));
                    case "own_versioned" -> Materialized.as(Own.versions(store, m));
                    default -> throw new Fns.CaseError("unknown store kind in " + step);
                };
            } else if (kind.equals("versioned")) {
                if (store == null) {
                    throw new Fns.CaseError("a versioned store needs a name: " + step);
                }
                final Duration retention = Duration.ofMillis(m.get("history_retention_ms").asLong());
                result = Materialized.as(m.has("segment_interval_ms")
                    ? Stores.persistentVersionedKeyValueStore(store, retention, Duration.ofMillis(m.get("segment_interval_ms").asLong()))
                    : Stores.persistentVersionedKeyValueStore(store, retention));
            } else {
                result = store == null ? Materialized.with(null, null) : Materialized.as(store);
                switch (kind) {
                    case "persistent" -> result = result.withStoreType(BuiltInDslStoreSuppliers.ROCKS_DB);
                    case "in_memory" -> result = result.withStoreType(BuiltInDslStoreSuppliers.IN_MEMORY);
                    case "with_headers" -> result = Materialized.as(Stores.persistentTimestampedKeyValueStoreWithHeaders(m.get("store").asText()));
                    case "timestamped" -> result = Materialized.as(Stores.persistentTimestampedKeyValueStore(m.get("store").asText()));
                    default -> throw new Fns.CaseError("unknown store kind in " + step);
                }
            }
            result = result.withKeySerde(storeKeySerde(m, key)).withValueSerde(value);
            result = m != null && m.has("caching") && m.get("caching").asBoolean() ? result.withCachingEnabled() : result.withCachingDisabled();
            if (m != null && m.has("logging") && !m.get("logging").asBoolean()) {
                result = result.withLoggingDisabled();
            }
            if (m != null && m.has("retention_ms") && !Own.is(m)) {
                result = result.withRetention(Duration.ofMillis(m.get("retention_ms").asLong()));
            }
            return result;
        }

        // ---- sources and sinks

        Node source(final JsonNode step, final String op) {
            final String topic = step.get("topic").asText();
            final Fns.Type key = Fns.Type.named(step.has("key_type") ? step.get("key_type").asText() : "string");
            final Fns.Type value = Fns.Type.named(step.has("value_type") ? step.get("value_type").asText() : "string");
            inputs.put(topic, new Fns.Type[] {key, value});
            // the key serde of the source is also that of its store
            final Consumed consumed = Consumed.with(storeKeySerde(step.get("materialized"), serde(key)), serde(value));
            final boolean stored = step.has("materialized");
            final Object it = switch (op) {
                case "stream" -> builder.stream(topic, consumed);
                case "table" -> stored
                    ? builder.table(topic, consumed, materialized(step, serde(key), serde(value)))
                    : builder.table(topic, consumed);
                default -> stored
                    ? builder.globalTable(topic, consumed, materialized(step, serde(key), serde(value)))
                    : builder.globalTable(topic, consumed);
            };
            return new Node(it, key, value);
        }

        Node to(final JsonNode step) {
            final Node of = get(step, "of");
            final String topic = step.get("topic").asText();
            final Produced produced = Produced.with(of.keySerde(), noting(of.valueSerde(), order));
            expect(of, KStream.class, step).to(topic, produced);
            final Node before = outputs.put(topic, of);
            if (before != null && !(before.key.equals(of.key) && before.value.equals(of.value))) {
                throw new Fns.CaseError("two types in topic " + topic);
            }
            return null;
        }

        // ---- stateless

        Node filter(final JsonNode step) {
            final Node of = get(step, "of");
            final Fns.Predicate2 p = Fns.predicate(step.get("predicate"));
            final Predicate predicate = p::test;
            final boolean not = step.get("op").asText().equals("filter_not");
            final Object it;
            if (of.it instanceof KStream s) {
                it = not ? s.filterNot(predicate) : s.filter(predicate);
            } else {
                final KTable t = expect(of, KTable.class, step);
                if (step.has("materialized")) {
                    final Materialized m = materialized(step, of.keySerde(), of.valueSerde());
                    it = not ? t.filterNot(predicate, m) : t.filter(predicate, m);
                } else {
                    it = not ? t.filterNot(predicate) : t.filter(predicate);
                }
            }
            return new Node(it, of.key, of.value);
        }

        Node map(final JsonNode step) {
            final Node of = get(step, "of");
            final JsonNode fn = step.get("mapper");
            final Object it = expect(of, KStream.class, step).map(Fns.pair(fn));
            return new Node(it, Fns.mapperType(fn.get("key"), of.key, of.value), Fns.mapperType(fn.get("value"), of.key, of.value));
        }

        Node mapValues(final JsonNode step) {
            final Node of = get(step, "of");
            final JsonNode fn = step.get("mapper");
            final Fns.Fn2 f = Fns.mapper(fn);
            final ValueMapperWithKey mapper = f::apply;
            final Fns.Type value = Fns.mapperType(fn, of.key, of.value);
            final Object it;
            if (of.it instanceof KStream s) {
                it = s.mapValues(mapper);
            } else {
                final KTable t = expect(of, KTable.class, step);
                it = step.has("materialized")
                    ? t.mapValues(mapper, materialized(step, of.keySerde(), serde(value)))
                    : t.mapValues(mapper);
            }
            return new Node(it, of.key, value);
        }

        Node flatMap(final JsonNode step) {
            final Node of = get(step, "of");
            final JsonNode fn = step.get("mapper");
            final KStream s = expect(of, KStream.class, step);
            switch (Fns.name(fn)) {
                case "each" -> {
                    final List<KeyValueMapper<Object, Object, KeyValue<Object, Object>>> pairs = new ArrayList<>();
                    for (final JsonNode pair : fn.get("pairs")) {
                        pairs.add(Fns.pair(pair));
                    }
                    final KeyValueMapper mapper = (k, v) -> {
                        final List<KeyValue<Object, Object>> out = new ArrayList<>();
                        pairs.forEach(p -> out.add(p.apply(k, v)));
                        return out;
                    };
                    final JsonNode first = fn.get("pairs").get(0);
                    return new Node(s.flatMap(mapper), Fns.mapperType(first.get("key"), of.key, of.value),
                        Fns.mapperType(first.get("value"), of.key, of.value));
                }
                case "words_as_keys" -> {
                    final String sep = Fns.wordSep(fn);
                    final KeyValueMapper mapper = (k, v) -> {
                        final List<KeyValue<Object, Object>> out = new ArrayList<>();
                        Fns.words(v, sep).forEach(w -> out.add(KeyValue.pair(w, v)));
                        return out;
                    };
                    return new Node(s.flatMap(mapper), Fns.Type.STRING, of.value);
                }
                default -> throw new Fns.CaseError("unknown flat mapper " + fn);
            }
        }

        Node flatMapValues(final JsonNode step) {
            final Node of = get(step, "of");
            final JsonNode fn = step.get("mapper");
            final KStream s = expect(of, KStream.class, step);
            switch (Fns.name(fn)) {
                case "split_words" -> {
                    final String sep = Fns.wordSep(fn);
                    final ValueMapperWithKey mapper = (k, v) -> Fns.words(v, sep);
                    return new Node(s.flatMapValues(mapper), of.key, Fns.Type.STRING);
                }
                case "repeat" -> {
                    final int n = fn.get("n").asInt();
                    final ValueMapperWithKey mapper = (k, v) -> Collections.nCopies(n, v);
                    return new Node(s.flatMapValues(mapper), of.key, of.value);
                }
                default -> throw new Fns.CaseError("unknown flat value mapper " + fn);
            }
        }

        Node selectKey(final JsonNode step) {
            final Node of = get(step, "of");
            final JsonNode fn = step.get("mapper");
            final Fns.Fn2 f = Fns.mapper(fn);
            final KeyValueMapper mapper = f::apply;
            return new Node(expect(of, KStream.class, step).selectKey(mapper), Fns.mapperType(fn, of.key, of.value), of.value);
        }

        Node merge(final JsonNode step) {
            final Node of = get(step, "of");
            final Node with = get(step, "with");
            return new Node(expect(of, KStream.class, step).merge(expect(with, KStream.class, step)), of.key, of.value);
        }

        Node split(final JsonNode step) {
            final Node of = get(step, "of");
            final String id = step.get("id").asText();
            BranchedKStream b = expect(of, KStream.class, step).split(Named.as(id + "-"));
            for (final JsonNode branch : step.get("branches")) {
                final Fns.Predicate2 p = Fns.predicate(branch.get("when"));
                final Predicate predicate = p::test;
                b = b.branch(predicate, Branched.as(branch.get("name").asText()));
            }
            final Map<String, KStream> all = step.hasNonNull("default_branch")
                ? b.defaultBranch(Branched.as(step.get("default_branch").asText()))
                : b.noDefaultBranch();
            all.forEach((name, stream) -> steps.put(id + "." + name.substring(id.length() + 1), new Node(stream, of.key, of.value)));
            return null;
        }

        Node repartition(final JsonNode step) {
            final Node of = get(step, "of");
            Repartitioned r = Repartitioned.with(of.keySerde(), of.valueSerde());
            if (step.has("name")) {
                r = r.withName(step.get("name").asText());
            }
            return new Node(expect(of, KStream.class, step).repartition(r), of.key, of.value);
        }

        Node toTable(final JsonNode step) {
            final Node of = get(step, "of");
            final KStream s = expect(of, KStream.class, step);
            // to_table always gets a Materialized (unnamed when the case has none), as the serdes have to be given
            return new Node(s.toTable(materialized(step, of.keySerde(), of.valueSerde())), of.key, of.value);
        }

        Node toStream(final JsonNode step) {
            final Node of = get(step, "of");
            final KTable t = expect(of, KTable.class, step);
            if (step.has("mapper")) {
                final Fns.Fn2 f = Fns.mapper(step.get("mapper"));
                final KeyValueMapper mapper = f::apply;
                return new Node(t.toStream(mapper), Fns.mapperType(step.get("mapper"), of.key, of.value), of.value);
            }
            return new Node(t.toStream(), of.key, of.value);
        }

        // ---- grouping and aggregation

        Grouped grouped(final JsonNode step, final Fns.Type key, final Fns.Type value) {
            final Grouped g = Grouped.with(serde(key), serde(value));
            return step.has("name") ? g.withName(step.get("name").asText()) : g;
        }

        Node groupByKey(final JsonNode step) {
            final Node of = get(step, "of");
            return new Node(expect(of, KStream.class, step).groupByKey(grouped(step, of.key, of.value)), of.key, of.value);
        }

        Node groupBy(final JsonNode step) {
            final Node of = get(step, "of");
            final JsonNode fn = step.get("mapper");
            if (of.it instanceof KStream s) {
                final Fns.Fn2 f = Fns.mapper(fn);
                final KeyValueMapper mapper = f::apply;
                final Fns.Type key = Fns.mapperType(fn, of.key, of.value);
                return new Node(s.groupBy(mapper, grouped(step, key, of.value)), key, of.value);
            }
            final KTable t = expect(of, KTable.class, step);
            final Fns.Type key = Fns.mapperType(fn.get("key"), of.key, of.value);
            final Fns.Type value = Fns.mapperType(fn.get("value"), of.key, of.value);
            return new Node(t.groupBy((KeyValueMapper) Fns.pair(fn), grouped(step, key, value)), key, value);
        }

        static Object windows(final JsonNode w) {
            switch (w.get("type").asText()) {
                case "TimeWindows" -> {
                    final Duration size = Duration.ofMillis(w.get("size_ms").asLong());
                    TimeWindows t = w.has("grace_ms")
                        ? TimeWindows.ofSizeAndGrace(size, Duration.ofMillis(w.get("grace_ms").asLong()))
                        : TimeWindows.ofSizeWithNoGrace(size);
                    if (w.has("advance_ms")) {
                        t = t.advanceBy(Duration.ofMillis(w.get("advance_ms").asLong()));
                    }
                    return t;
                }
                case "SlidingWindows" -> {
                    final Duration diff = Duration.ofMillis(w.get("time_difference_ms").asLong());
                    return w.has("grace_ms")
                        ? SlidingWindows.ofTimeDifferenceAndGrace(diff, Duration.ofMillis(w.get("grace_ms").asLong()))
                        : SlidingWindows.ofTimeDifferenceWithNoGrace(diff);
                }
                case "SessionWindows" -> {
                    final Duration gap = Duration.ofMillis(w.get("inactivity_gap_ms").asLong());
                    return w.has("grace_ms")
                        ? SessionWindows.ofInactivityGapAndGrace(gap, Duration.ofMillis(w.get("grace_ms").asLong()))
                        : SessionWindows.ofInactivityGapWithNoGrace(gap);
                }
                case "UnlimitedWindows" -> {
                    final UnlimitedWindows u = UnlimitedWindows.of();
                    return w.has("start_ms") ? u.startOn(Instant.ofEpochMilli(w.get("start_ms").asLong())) : u;
                }
                case "JoinWindows" -> {
                    final Duration diff = Duration.ofMillis(w.get("time_difference_ms").asLong());
                    JoinWindows j = w.has("grace_ms")
                        ? JoinWindows.ofTimeDifferenceAndGrace(diff, Duration.ofMillis(w.get("grace_ms").asLong()))
                        : JoinWindows.ofTimeDifferenceWithNoGrace(diff);
                    if (w.has("before_ms")) {
                        j = j.before(Duration.ofMillis(w.get("before_ms").asLong()));
                    }
                    if (w.has("after_ms")) {
                        j = j.after(Duration.ofMillis(w.get("after_ms").asLong()));
                    }
                    return j;
                }
                default -> throw new Fns.CaseError("unknown windows " + w);
            }
        }

        static Fns.Type windowedKey(final Fns.Type key, final Object windows) {
            if (windows instanceof TimeWindows t) {
                return Fns.Type.time(key, t.size());
            }
            if (windows instanceof SlidingWindows s) {
                return Fns.Type.time(key, s.timeDifferenceMs());
            }
            if (windows instanceof UnlimitedWindows) {
                return Fns.Type.time(key, Long.MAX_VALUE);
            }
            return Fns.Type.session(key);
        }

        Node windowedBy(final JsonNode step) {
            final Node of = get(step, "of");
            final Object w = windows(step.get("windows"));
            final Object it;
            if (of.it instanceof KGroupedStream g) {
                it = w instanceof Windows x ? g.windowedBy(x) : w instanceof SlidingWindows y ? g.windowedBy(y) : g.windowedBy((SessionWindows) w);
            } else {
                final CogroupedKStream c = expect(of, CogroupedKStream.class, step);
                it = w instanceof Windows x ? c.windowedBy(x) : w instanceof SlidingWindows y ? c.windowedBy(y) : c.windowedBy((SessionWindows) w);
            }
            return new Node(it, of.key, of.value, w, null);
        }

        Node emitStrategy(final JsonNode step) {
            final Node of = get(step, "of");
            final EmitStrategy s = switch (step.get("strategy").asText()) {
                case "on_window_close" -> EmitStrategy.onWindowClose();
                case "on_window_update" -> EmitStrategy.onWindowUpdate();
                default -> throw new Fns.CaseError("unknown strategy in " + step);
            };
            final Object it = of.it instanceof TimeWindowedKStream t
                ? t.emitStrategy(s)
                : expect(of, SessionWindowedKStream.class, step).emitStrategy(s);
            return new Node(it, of.key, of.value, of.windows, null);
        }

        Node cogroup(final JsonNode step) {
            CogroupedKStream c = null;
            Fns.Type key = null;
            for (final JsonNode one : step.get("streams")) {
                final Node of = get(one, "of");
                final Fns.Fn3 f = Fns.aggregator(one.get("aggregator"));
                final Aggregator a = f::apply;
                final KGroupedStream g = expect(of, KGroupedStream.class, step);
                c = c == null ? g.cogroup(a) : c.cogroup(g, a);
                key = of.key;
            }
            return new Node(c, key, null);
        }

        Node aggregate(final JsonNode step) {
            final Node of = get(step, "of");
            final String op = step.get("op").asText();
            final Fns.Type value = switch (op) {
                case "count" -> Fns.Type.LONG;
                case "reduce" -> of.value;
                default -> Fns.literalType(step.get("initializer"));
            };
            final Materialized m = materialized(step, of.keySerde(), serde(value));
            final Fns.Type key = of.windows == null ? of.key : windowedKey(of.key, of.windows);
            final Object it;
            if (op.equals("count")) {
                it = of.it instanceof KGroupedStream g ? g.count(m)
                    : of.it instanceof KGroupedTable t ? t.count(m)
                    : of.it instanceof TimeWindowedKStream w ? w.count(m)
                    : expect(of, SessionWindowedKStream.class, step).count(m);
            } else if (op.equals("reduce")) {
                if (of.it instanceof KGroupedTable t) {
                    final Fns.Reducer2 add = Fns.reducer(step.get("adder"));
                    final Fns.Reducer2 sub = Fns.reducer(step.get("subtractor"));
                    final Reducer adder = add::apply;
                    final Reducer subtractor = sub::apply;
                    it = t.reduce(adder, subtractor, m);
                } else {
                    final Fns.Reducer2 r = Fns.reducer(step.get("reducer"));
                    final Reducer reducer = r::apply;
                    it = of.it instanceof KGroupedStream g ? g.reduce(reducer, m)
                        : of.it instanceof TimeWindowedKStream w ? w.reduce(reducer, m)
                        : expect(of, SessionWindowedKStream.class, step).reduce(reducer, m);
                }
            } else {
                if (!"constant".equals(Fns.name(step.get("initializer")))) {
                    throw new Fns.CaseError("unknown initializer in " + step);
                }
                final Object zero = Fns.literal(step.get("initializer").get("value"));
                final Initializer init = () -> zero;
                Merger merger = null;
                if (step.has("merger")) {
                    final Fns.Fn3 f = Fns.merger(step.get("merger"));
                    merger = f::apply;
                }
                Aggregator aggregator = null;
                if (step.has("aggregator")) {
                    final Fns.Fn3 f = Fns.aggregator(step.get("aggregator"));
                    aggregator = f::apply;
                }
                if (of.it instanceof KGroupedTable t) {
                    final Fns.Fn3 add = Fns.aggregator(step.get("adder"));
                    final Fns.Fn3 sub = Fns.aggregator(step.get("subtractor"));
                    final Aggregator adder = add::apply;
                    final Aggregator subtractor = sub::apply;
                    it = t.aggregate(init, adder, subtractor, m);
                } else if (of.it instanceof CogroupedKStream c) {
                    it = c.aggregate(init, m);
                } else if (of.it instanceof TimeWindowedCogroupedKStream c) {
                    it = c.aggregate(init, m);
                } else if (of.it instanceof SessionWindowedCogroupedKStream c) {
                    it = c.aggregate(init, merger, m);
                } else if (of.it instanceof KGroupedStream g) {
                    it = g.aggregate(init, aggregator, m);
                } else if (of.it instanceof TimeWindowedKStream w) {
                    it = w.aggregate(init, aggregator, m);
                } else {
                    it = expect(of, SessionWindowedKStream.class, step).aggregate(init, aggregator, merger, m);
                }
            }
            return new Node(it, key, value);
        }

        // ---- suppress

        Node suppress(final JsonNode step) {
            final Node of = get(step, "of");
            final JsonNode b = step.has("buffer_config") ? step.get("buffer_config") : NODES.objectNode();
            Suppressed.BufferConfig config = null;
            if (b.has("max_records")) {
                config = Suppressed.BufferConfig.maxRecords(b.get("max_records").asLong());
            }
            if (b.has("max_bytes")) {
                final long n = b.get("max_bytes").asLong();
                config = config == null ? Suppressed.BufferConfig.maxBytes(n) : config.withMaxBytes(n);
            }
            if (config == null) {
                config = Suppressed.BufferConfig.unbounded();
            }
            if (b.has("when_full")) {
                config = switch (b.get("when_full").asText()) {
                    case "shut_down" -> config.shutDownWhenFull();
                    case "emit_early" -> config.emitEarlyWhenFull();
                    default -> throw new Fns.CaseError("unknown when_full in " + step);
                };
            }
            if (b.has("logging") && !b.get("logging").asBoolean()) {
                config = config.withLoggingDisabled();
            }
            final Suppressed s;
            switch (step.get("until").asText()) {
                case "window_closes" -> {
                    if (!(config instanceof Suppressed.StrictBufferConfig)) {
                        throw new Fns.CaseError("until window_closes takes a strict buffer (unbounded, or shut_down when full)");
                    }
                    s = Suppressed.untilWindowCloses((Suppressed.StrictBufferConfig) config);
                }
                case "time_limit" -> s = Suppressed.untilTimeLimit(Duration.ofMillis(step.get("time_ms").asLong()), config);
                default -> throw new Fns.CaseError("unknown until in " + step);
            }
            return new Node(expect(of, KTable.class, step).suppress(step.has("name") ? s.withName(step.get("name").asText()) : s), of.key, of.value);
        }

        // ---- joins

        Node join(final JsonNode step) {
            final Node of = get(step, "of");
            final Node with = get(step, "with");
            final String op = step.get("op").asText();
            final JsonNode fn = step.get("joiner");
            final Fns.Fn3 f = Fns.joiner(fn);
            final Fns.Type value = Fns.joinerType(fn, of.value, with.value);
            final ValueJoinerWithKey joiner = f::apply;
            if (of.it instanceof KStream s && with.it instanceof KStream o) {
                StreamJoined j = StreamJoined.with(of.keySerde(), of.valueSerde(), with.valueSerde());
                if (step.has("name")) {
                    j = j.withName(step.get("name").asText()).withStoreName(step.get("name").asText());
                    if (step.has("tells_stores")) {
                        joins.add(step.get("name").asText());
                    }
                }
                if (Own.is(step)) {
                    j = j.withThisStoreSupplier(Own.windows(step.get("name").asText() + "-this", step))
                        .withOtherStoreSupplier(Own.windows(step.get("name").asText() + "-other", step));
                } else if (step.has("kind")) {
                    j = j.withDslStoreSuppliers(step.get("kind").asText().equals("in_memory")
                        ? BuiltInDslStoreSuppliers.IN_MEMORY : BuiltInDslStoreSuppliers.ROCKS_DB);
                }
                final JoinWindows w = (JoinWindows) windows(step.get("windows"));
                return new Node(switch (op) {
                    case "join" -> s.join(o, joiner, w, j);
                    case "left_join" -> s.leftJoin(o, joiner, w, j);
                    default -> s.outerJoin(o, joiner, w, j);
                }, of.key, value);
            }
            if (of.it instanceof KStream s && with.it instanceof KTable t) {
                Joined j = Joined.with(of.keySerde(), of.valueSerde(), with.valueSerde());
                if (step.has("name")) {
                    j = j.withName(step.get("name").asText());
                }
                if (step.has("grace_ms")) {
                    j = j.withGracePeriod(Duration.ofMillis(step.get("grace_ms").asLong()));
                }
                return new Node(op.equals("join") ? s.join(t, joiner, j) : s.leftJoin(t, joiner, j), of.key, value);
            }
            if (of.it instanceof KStream s && with.it instanceof GlobalKTable g) {
                final Fns.Fn2 key = Fns.mapper(step.get("key_mapper"));
                final KeyValueMapper mapper = key::apply;
                return new Node(op.equals("join") ? s.join(g, mapper, joiner) : s.leftJoin(g, mapper, joiner), of.key, value);
            }
            final KTable left = expect(of, KTable.class, step);
            final KTable right = expect(with, KTable.class, step);
            final ValueJoiner plain = (l, r) -> f.apply(null, l, r);
            final boolean stored = step.has("materialized");
            if (step.has("foreign_key_extractor")) {
                final Fns.Fn2 e = Fns.mapper(step.get("foreign_key_extractor"));
                final java.util.function.BiFunction extractor = e::apply;
                final Materialized m = materialized(step, of.keySerde(), serde(value));
                return new Node(op.equals("join")
                    ? left.join(right, extractor, plain, m)
                    : left.leftJoin(right, extractor, plain, m), of.key, value);
            }
            if (stored) {
                final Materialized m = materialized(step, of.keySerde(), serde(value));
                return new Node(switch (op) {
                    case "join" -> left.join(right, plain, m);
                    case "left_join" -> left.leftJoin(right, plain, m);
                    default -> left.outerJoin(right, plain, m);
                }, of.key, value);
            }
            return new Node(switch (op) {
                case "join" -> left.join(right, plain);
                case "left_join" -> left.leftJoin(right, plain);
                default -> left.outerJoin(right, plain);
            }, of.key, value);
        }
    }

    // ------------------------------------------------------------------ running a case

    static Properties properties(final JsonNode config, final Path state) {
        final Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, "oracle");
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:1");
        p.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        p.put(StreamsConfig.METRICS_RECORDING_LEVEL_CONFIG, "DEBUG");
        p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0L);
        p.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        p.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        if (config != null) {
            config.fields().forEachRemaining(e -> {
                final JsonNode v = e.getValue();
                p.put(e.getKey(), v.isIntegralNumber() ? (Object) v.asLong() : v.asText());
            });
        }
        // Kafka's own parser takes numbers of either size as text; the internal intervals have to stay numbers
        for (final String name : p.stringPropertyNames()) {
            if (!name.startsWith("__")) {
                p.put(name, String.valueOf(p.get(name)));
            }
        }
        return p;
    }

    static ObjectNode fill(final ObjectNode one) {
        one.remove("expected");
        one.set("expected", run(one, null));
        return one;
    }

    /** The description of each topology of these folders that is not rejected, by the case's name. */
    private static String describeAll(final List<String> dirs) throws IOException {
        final ObjectNode all = NODES.objectNode();
        for (final String dir : dirs) {
            final List<Path> files = new ArrayList<>();
            try (Stream<Path> listed = Files.list(Path.of(dir))) {
                listed.filter(p -> p.toString().endsWith(".json")).sorted().forEach(files::add);
            }
            for (final Path file : files) {
                final ObjectNode one = (ObjectNode) JSON.readTree(file.toFile());
                final Properties p = properties(one.get("config"), Path.of("unused"));
                try {
                    final Build build = new Build(p);
                    one.get("topology").forEach(build::step);
                    all.put(one.get("name").asText(), build.topology(p).describe().toString());
                } catch (final org.apache.kafka.streams.errors.TopologyException e) {
                    // it has no description
                }
            }
        }
        return JSON.writerWithDefaultPrettyPrinter().writeValueAsString(all);
    }

    private static void describe(final ObjectNode one, final PrintStream out) throws IOException {
        run(one, out);
    }

    private static ObjectNode run(final ObjectNode one, final PrintStream describe) {
        final ObjectNode expected = NODES.objectNode();
        Path state = null;
        TopologyTestDriver driver = null;
        try {
            state = Files.createTempDirectory("oracle");
            final Properties p = properties(one.get("config"), state);
            final Build build;
            try {
                build = new Build(p);
                for (final JsonNode step : one.get("topology")) {
                    build.step(step);
                }
                final Topology topology = build.topology(p);
                if (describe != null) {
                    describe.println(topology.describe());
                }
                driver = new TopologyTestDriver(topology, p, Instant.EPOCH);
            } catch (final Fns.CaseError e) {
                throw e;
            } catch (final Exception e) {
                expected.set("error", error(e, null));
                return expected;
            }
            feed(one, build, driver, expected, describe);
            return expected;
        } catch (final IOException e) {
            throw new java.io.UncheckedIOException(e);
        } finally {
            if (driver != null) {
                try {
                    driver.close();
                } catch (final Exception e) {
                    // a task that failed cannot be closed cleanly
                }
            }
            delete(state);
        }
    }

    private static void delete(final Path dir) {
        if (dir == null || !Files.exists(dir)) {
            return;
        }
        try (Stream<Path> all = Files.walk(dir)) {
            all.sorted(Comparator.reverseOrder()).forEach(p -> p.toFile().delete());
        } catch (final IOException e) {
            // leave it to the system
        }
    }

    /** The outermost exception is what a caller sees; the innermost is often the one that says why. */
    private static ObjectNode error(final Throwable e, final Integer after) {
        final ObjectNode n = NODES.objectNode();
        n.put("type", e.getClass().getSimpleName());
        Throwable cause = e;
        while (cause.getCause() != null && cause.getCause() != cause) {
            cause = cause.getCause();
        }
        if (cause != e) {
            n.put("cause", cause.getClass().getSimpleName());
        }
        if (after == null) {
            n.put("when", "build");
        } else {
            n.put("when", "run");
            n.put("after", after);
        }
        n.put("message", cause.getMessage() == null ? null : cause.getMessage().replaceAll("/[^ ]*/oracle[0-9]+", "STATE"));
        return n;
    }

    private static void feed(final ObjectNode one, final Build build, final TopologyTestDriver driver, final ObjectNode expected,
                             final PrintStream describe) {
        final Map<String, TestInputTopic> inputs = new HashMap<>();
        build.inputs.forEach((topic, types) -> inputs.put(topic,
            driver.createInputTopic(topic, serde(types[0]).serializer(), serde(types[1]).serializer())));
        final Map<String, TestOutputTopic> outputs = new HashMap<>();
        build.outputs.forEach((topic, node) -> outputs.put(topic,
            driver.createOutputTopic(topic, node.keySerde().deserializer(), node.valueSerde().deserializer())));
        final boolean tellsHeaders = StreamSupport.stream(one.get("input").spliterator(), false).anyMatch(in -> in.has("headers"));
        final ArrayNode output = expected.putArray("output");
        final ArrayNode reads = NODES.arrayNode();
        final ArrayNode dropped = NODES.arrayNode();
        long drops = 0;
        ObjectNode error = null;
        int index = 0;
        for (final JsonNode in : one.get("input")) {
            build.order.clear();
            try {
                if (in.has("advance_wall_clock_ms")) {
                    driver.advanceWallClockTime(Duration.ofMillis(in.get("advance_wall_clock_ms").asLong()));
                } else if (in.has("read")) {
                    reads.add(read(in, index, build, driver));
                } else {
                    final TestInputTopic topic = inputs.get(in.get("topic").asText());
                    if (topic == null) {
                        throw new Fns.CaseError("no step reads topic " + in.get("topic"));
                    }
                    topic.pipeInput(new TestRecord(input(in, "key", build, 0), input(in, "value", build, 1), headers(in), Instant.ofEpochMilli(in.get("timestamp").asLong())));
                }
            } catch (final Fns.CaseError e) {
                throw e;
            } catch (final Exception e) {
                error = error(e, index);
            }
            for (final String topic : build.order) {
                final TestOutputTopic t = outputs.get(topic);
                if (t == null || t.isEmpty()) {
                    continue; // a repartition topic, or a record lost to an error
                }
                final TestRecord r = t.readRecord();
                final ObjectNode n = output.addObject();
                n.put("after", index);
                n.put("topic", topic);
                n.set("key", json(r.key()));
                n.set("value", json(r.value()));
                n.put("timestamp", r.timestamp());
                if (tellsHeaders) {
                    n.set("headers", pairs(r.headers()));
                }
            }
            final long now = dropped(driver);
            for (; drops < now; drops++) {
                dropped.add(index);
            }
            if (error != null) {
                break;
            }
            index++;
        }
        for (final Map.Entry<String, TestOutputTopic> e : outputs.entrySet()) {
            if (error == null && !e.getValue().isEmpty()) {
                throw new IllegalStateException("records left in " + e.getKey());
            }
        }
        expected.set("dropped", dropped);
        if (!reads.isEmpty()) {
            expected.set("reads", reads);
        }
        if (error != null) {
            expected.set("error", error);
        }
        final ObjectNode stores = NODES.objectNode();
        if (error == null) {
            final Map<String, StateStore> all = driver.getAllStateStores();
            for (final Map.Entry<String, Map<Bytes, Object>> e : build.stores.entrySet()) {
                if (all.get(e.getKey()) != null) {
                    stores.set(e.getKey(), dump(all.get(e.getKey()), e.getValue().values()));
                }
            }
            for (final String join : build.joins) {
                new TreeMap<>(all).forEach((name, store) -> {
                    if (name.startsWith(join) && store instanceof WindowStore) {
                        stores.set(name, dump(store, List.of()));
                    }
                });
            }
        }
        expected.set("stores", stores);
        expected.set("metrics", metrics(driver));
        if (describe != null) {
            final TreeMap<String, Object> sorted = new TreeMap<>();
            driver.metrics().forEach((n, m) -> sorted.put(n.group() + " " + n.name() + " " + n.tags(), m.metricValue()));
            sorted.forEach((n, v) -> describe.println(n + " = " + v));
        }
    }

    static Object input(final JsonNode in, final String field, final Build build, final int which) {
        final Object o = Fns.literal(in.get(field));
        final Fns.Type type = build.inputs.get(in.get("topic").asText())[which];
        if (o != null && type.equals(Fns.Type.LONG) != o instanceof Long) {
            throw new Fns.CaseError("the " + field + " is not a " + type.kind() + " in " + in);
        }
        return o;
    }

    // ------------------------------------------------------------------ stores

    private static JsonNode timestamp(final long t) {
        return NODES.numberNode(t);
    }

    private static ArrayNode entry(final Object key, final Object value) {
        final ArrayNode n = NODES.arrayNode();
        n.add(json(key));
        if (value instanceof ValueAndTimestamp<?> v) {
            n.add(json(v.value()));
            n.add(timestamp(v.timestamp()));
        } else if (value instanceof ValueTimestampHeaders<?> v) {
            n.add(json(v.value()));
            n.add(timestamp(v.timestamp()));
            n.add(pairs(v.headers()));
        } else if (value instanceof AggregationWithHeaders<?> v) {
            n.add(json(v.aggregation()));
            n.addNull();
            n.add(pairs(v.headers()));
        } else {
            n.add(json(value));
        }
        return n;
    }

    private static ArrayNode pairs(final Headers headers) {
        final ArrayNode pairs = NODES.arrayNode();
        headers.forEach(h -> pairs.addArray().add(h.key()).add(new String(h.value(), StandardCharsets.UTF_8)));
        return pairs;
    }

    private static ArrayNode version(final Object key, final VersionedRecord<?> v) {
        final ArrayNode n = NODES.arrayNode();
        n.add(json(key));
        n.add(json(v.value()));
        n.add(timestamp(v.timestamp()));
        n.add(v.validTo().isPresent() ? timestamp(v.validTo().get()) : NODES.nullNode());
        return n;
    }

    private static ArrayNode dump(final StateStore store, final Iterable<Object> keys) {
        final ArrayNode out = NODES.arrayNode();
        if (store instanceof VersionedKeyValueStore v) {
            for (final Object key : keys) {
                versions(v, key, null, null, out);
            }
        } else if (store instanceof SessionStore s) {
            for (final Object key : keys) {
                try (KeyValueIterator<Windowed<Object>, Object> it = s.fetch(key)) {
                    it.forEachRemaining(e -> out.add(entry(e.key, e.value)));
                }
            }
        } else if (store instanceof WindowStore w) {
            try (KeyValueIterator<Windowed<Object>, Object> it = w.all()) {
                it.forEachRemaining(e -> out.add(entry(e.key, e.value)));
            }
        } else if (store instanceof KeyValueStore k) {
            try (KeyValueIterator<Object, Object> it = k.all()) {
                it.forEachRemaining(e -> out.add(entry(e.key, e.value)));
            }
        } else {
            throw new IllegalStateException("a store of " + store.getClass());
        }
        return out;
    }

    private static void versions(final VersionedKeyValueStore store, final Object key, final Long from, final Long to, final ArrayNode out) {
        MultiVersionedKeyQuery<Object, Object> q = MultiVersionedKeyQuery.withKey(key).withAscendingTimestamps();
        if (from != null) {
            q = q.fromTime(Instant.ofEpochMilli(from));
        }
        if (to != null) {
            q = q.toTime(Instant.ofEpochMilli(to));
        }
        final VersionedRecordIterator<Object> it =
            (VersionedRecordIterator<Object>) store.query(q, PositionBound.unbounded(), new QueryConfig(false)).getResult();
        try (it) {
            while (it.hasNext()) {
                out.add(version(key, it.next()));
            }
        }
    }

    /** {"read": store, "key": k} with "as_of", or "versions": true with "from"/"to", or "from"/"to" of a window or session store. */
    private static ObjectNode read(final JsonNode in, final int index, final Build build, final TopologyTestDriver driver) {
        final ObjectNode n = NODES.objectNode();
        n.put("after", index);
        final ArrayNode result = NODES.arrayNode();
        final Object key = Fns.literal(in.get("key"));
        final StateStore store = driver.getAllStateStores().get(in.get("read").asText());
        if (store == null) {
            throw new Fns.CaseError("no store " + in.get("read"));
        }
        final Long from = in.hasNonNull("from") ? (Long) in.get("from").asLong() : null;
        final Long to = in.hasNonNull("to") ? (Long) in.get("to").asLong() : null;
        if (store instanceof VersionedKeyValueStore v) {
            if (in.has("versions")) {
                versions(v, key, from, to, result);
            } else {
                final VersionedRecord r = in.has("as_of") ? v.get(key, in.get("as_of").asLong()) : v.get(key);
                if (r != null) {
                    result.add(version(key, r));
                }
            }
        } else if (store instanceof SessionStore s) {
            try (KeyValueIterator<Windowed<Object>, Object> it = from == null ? s.fetch(key) : s.findSessions(key, from, to)) {
                it.forEachRemaining(e -> result.add(entry(e.key, e.value)));
            }
        } else if (store instanceof WindowStore w) {
            try (WindowStoreIterator<Object> it = w.fetch(key, Instant.ofEpochMilli(from), Instant.ofEpochMilli(to))) {
                it.forEachRemaining(e -> result.add(entry(e.key, e.value)));
            }
        } else {
            final Object value = ((KeyValueStore) store).get(key);
            if (value != null) {
                result.add(entry(key, value));
            }
        }
        n.set("result", result);
        return n;
    }

    private static Headers headers(final JsonNode in) {
        final Headers headers = new RecordHeaders();
        if (in.has("headers")) {
            in.get("headers").forEach(h -> headers.add(h.get(0).asText(), h.get(1).asText().getBytes(StandardCharsets.UTF_8)));
        }
        return headers;
    }

    // ------------------------------------------------------------------ metrics

    private static long dropped(final TopologyTestDriver driver) {
        long sum = 0;
        for (final Map.Entry<MetricName, ? extends Metric> e : driver.metrics().entrySet()) {
            if (e.getKey().name().equals("dropped-records-total") && e.getKey().group().equals("stream-task-metrics")) {
                sum += Math.round((Double) e.getValue().metricValue());
            }
        }
        return sum;
    }

    private static final Set<String> PER_NODE = new LinkedHashSet<>(List.of(
        "suppression-emit-total", "suppression-buffer-count-avg", "suppression-buffer-count-max",
        "suppression-buffer-size-avg", "suppression-buffer-size-max", "window-aggregate-final-emit-total",
        "record-lateness-avg", "record-lateness-max"));

    private static ObjectNode metrics(final TopologyTestDriver driver) {
        final ObjectNode out = NODES.objectNode();
        out.put("dropped-records-total", dropped(driver));
        for (final String name : PER_NODE) {
            final TreeMap<String, Double> found = new TreeMap<>();
            driver.metrics().forEach((n, m) -> {
                if (n.name().equals(name)) {
                    found.put(n.tags().toString(), (Double) m.metricValue());
                }
            });
            final ArrayNode values = NODES.arrayNode();
            found.values().forEach(v -> values.add(number(v)));
            if (name.startsWith("record-lateness")) {
                out.set(name, values.get(0)); // one task
            } else if (!values.isEmpty()) {
                out.set(name, values);
            }
        }
        return out;
    }

    private static JsonNode number(final Double v) {
        if (v.isNaN()) {
            return NODES.nullNode();
        }
        if (v == Math.rint(v)) {
            return NODES.numberNode(v.longValue());
        }
        return NODES.numberNode(Math.round(v * 1e6) / 1e6);
    }
}
