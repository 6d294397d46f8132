import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.Punctuator;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessingContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** The fixed processors that a case can name. README.md specifies every one of them. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class Procs {
    private Procs() { }

    /** What a processor needs of its context; records are sent as key, value and timestamp. */
    interface To {
        void forward(Object key, Object value, long timestamp, String child);
    }

    /** Where punctuations are scheduled; transformers of values have another context than processors. */
    interface Times {
        Cancellable schedule(Duration interval, PunctuationType type, Punctuator call);

        long streamTime();
    }

    /** Works on one record. */
    interface Step {
        void process(Object key, Object value, long timestamp);

        /** Those that look at a record's headers. */
        default void process(final Object key, final Object value, final long timestamp, final Headers headers) {
            process(key, value, timestamp);
        }
    }

    /** A step that keeps a record's headers. */
    interface HeaderStep extends Step {
        @Override
        default void process(final Object key, final Object value, final long timestamp) {
            throw new IllegalStateException();
        }

        @Override
        void process(Object key, Object value, long timestamp, Headers headers);
    }

    static Fns.Type resultType(final JsonNode fn, final Fns.Type value) {
        return switch (Fns.name(fn)) {
            case "counter", "put_count" -> Fns.Type.LONG;
            case "forward_times", "router", "filter_new", "shift", "put_value", "write_table" -> value;
            default -> Fns.Type.STRING;
        };
    }

    // ------------------------------------------------------------------ the DSL's forms

    static Processor processor(final JsonNode fn) {
        return new Processor<Object, Object, Object, Object>() {
            private Step step;

            @Override
            public void init(final ProcessorContext<Object, Object> context) {
                final To to = (key, value, timestamp, child) -> {
                    final Record<Object, Object> record = new Record<>(key, value, timestamp);
                    if (child == null) {
                        context.forward(record);
                    } else {
                        context.forward(record, child);
                    }
                };
                step = step(fn, context, to);
            }

            @Override
            public void process(final Record<Object, Object> record) {
                step.process(record.key(), record.value(), record.timestamp(), record.headers());
            }
        };
    }

    static FixedKeyProcessor fixedKeyProcessor(final JsonNode fn) {
        return new FixedKeyProcessor<Object, Object, Object>() {
            private Step step;
            private FixedKeyRecord<Object, Object> current;

            @Override
            public void init(final FixedKeyProcessorContext<Object, Object> context) {
                final To to = (key, value, timestamp, child) -> {
                    final FixedKeyRecord<Object, Object> record = current.withValue(value).withTimestamp(timestamp);
                    if (child == null) {
                        context.forward(record);
                    } else {
                        context.forward(record, child);
                    }
                };
                step = step(fn, context, to);
            }

            @Override
            public void process(final FixedKeyRecord<Object, Object> record) {
                current = record;
                step.process(record.key(), record.value(), record.timestamp(), record.headers());
            }
        };
    }

    /** Transformers of table values: "key_value" is without state, "calls" tells how often it was asked for the key. */
    static ValueTransformerWithKeySupplier transformer(final JsonNode fn) {
        return () -> new ValueTransformerWithKey<Object, Object, Object>() {
            private StateStore store;

            @Override
            public void init(final org.apache.kafka.streams.processor.ProcessorContext context) {
                store = fn.has("store") ? context.getStateStore(Fns.arg(fn, "store")) : null;
                final Times times = new Times() {
                    @Override
                    public Cancellable schedule(final Duration interval, final PunctuationType type, final Punctuator call) {
                        return context.schedule(interval, type, call);
                    }

                    @Override
                    public long streamTime() {
                        return context.currentStreamTimeMs();
                    }
                };
                final To nobody = (key, value, timestamp, child) -> {
                    throw new Fns.CaseError("a transformer's punctuation cannot forward: " + fn);
                };
                scheduleAll(fn, store, times, nobody);
            }

            @Override
            public Object transform(final Object key, final Object value) {
                switch (Fns.name(fn)) {
                    case "key_value" -> {
                        return Fns.text(key) + ":" + Fns.text(value);
                    }
                    case "unless_null" -> {
                        return value == null ? null : Fns.text(key) + ":" + Fns.text(value);
                    }
                    case "calls" -> {
                        final KeyValueStore s = (KeyValueStore) store;
                        final long n = 1 + Fns.number(s.get(key));
                        s.put(key, n);
                        return value == null ? null : Fns.text(value) + "#" + n;
                    }
                    case "lookup" -> {
                        return value == null ? null : Fns.text(value) + "|" + shown(((KeyValueStore) store).get(key));
                    }
                    default -> throw new Fns.CaseError("unknown transformer " + fn);
                }
            }

            @Override
            public void close() { }
        };
    }

    // ------------------------------------------------------------------ stores

    static StoreBuilder<?> store(final JsonNode step, final org.apache.kafka.common.serialization.Serde key,
                                 final org.apache.kafka.common.serialization.Serde value) {
        final String name = Fns.arg(step, "store");
        final boolean memory = step.has("kind") && step.get("kind").asText().equals("in_memory");
        if (Own.is(step)) {
            return switch (Fns.arg(step, "shape")) {
                case "window" -> Stores.windowStoreBuilder(Own.windows(name, step), key, value);
                case "timestamped_window" -> Stores.timestampedWindowStoreBuilder(Own.windows(name, step), key, value);
                case "session" -> Stores.sessionStoreBuilder(Own.sessions(name, step), key, value);
                case "versioned" -> Stores.versionedKeyValueStoreBuilder(Own.versions(name, step), key, value);
                default -> throw new Fns.CaseError("unknown shape in " + step);
            };
        }
        final StoreBuilder<?> builder = switch (Fns.arg(step, "shape")) {
            case "key_value" -> Stores.keyValueStoreBuilder(
                memory ? Stores.inMemoryKeyValueStore(name) : Stores.persistentKeyValueStore(name), key, value);
            case "timestamped_key_value" -> Stores.timestampedKeyValueStoreBuilder(
                memory ? Stores.inMemoryKeyValueStore(name) : Stores.persistentTimestampedKeyValueStore(name), key, value);
            case "versioned" -> Stores.versionedKeyValueStoreBuilder(step.has("segment_interval_ms")
                ? Stores.persistentVersionedKeyValueStore(name, ms(step, "history_retention_ms"), ms(step, "segment_interval_ms"))
                : Stores.persistentVersionedKeyValueStore(name, ms(step, "history_retention_ms")), key, value);
            case "window" -> Stores.windowStoreBuilder(memory
                ? Stores.inMemoryWindowStore(name, ms(step, "retention_ms"), ms(step, "window_size_ms"), false)
                : Stores.persistentWindowStore(name, ms(step, "retention_ms"), ms(step, "window_size_ms"), false), key, value);
            case "timestamped_window" -> Stores.timestampedWindowStoreBuilder(memory
                ? Stores.inMemoryWindowStore(name, ms(step, "retention_ms"), ms(step, "window_size_ms"), false)
                : Stores.persistentTimestampedWindowStore(name, ms(step, "retention_ms"), ms(step, "window_size_ms"), false), key, value);
            case "session" -> Stores.sessionStoreBuilder(memory
                ? Stores.inMemorySessionStore(name, ms(step, "retention_ms"))
                : Stores.persistentSessionStore(name, ms(step, "retention_ms")), key, value);
            case "timestamped_key_value_with_headers" -> Stores.timestampedKeyValueStoreWithHeadersBuilder(
                memory ? Stores.inMemoryKeyValueStore(name) : Stores.persistentTimestampedKeyValueStoreWithHeaders(name), key, value);
            case "timestamped_window_with_headers" -> Stores.timestampedWindowStoreWithHeadersBuilder(memory
                ? Stores.inMemoryWindowStore(name, ms(step, "retention_ms"), ms(step, "window_size_ms"), false)
                : Stores.persistentTimestampedWindowStoreWithHeaders(name, ms(step, "retention_ms"), ms(step, "window_size_ms"), false), key, value);
            case "session_with_headers" -> Stores.sessionStoreWithHeadersBuilder(memory
                ? Stores.inMemorySessionStore(name, ms(step, "retention_ms"))
                : Stores.persistentSessionStoreWithHeaders(name, ms(step, "retention_ms")), key, value);
            default -> throw new Fns.CaseError("unknown shape in " + step);
        };
        return builder;
    }

    private static Duration ms(final JsonNode step, final String field) {
        return Duration.ofMillis(Long.parseLong(Fns.arg(step, field)));
    }

    static String shown(final Object value) {
        if (value instanceof ValueAndTimestamp<?> v) {
            return Fns.text(v.value()) + "@" + v.timestamp();
        }
        if (value instanceof ValueTimestampHeaders<?> v) {
            return Fns.text(v.value()) + "@" + v.timestamp() + shown(v.headers());
        }
        if (value instanceof AggregationWithHeaders<?> v) {
            return Fns.text(v.aggregation()) + shown(v.headers());
        }
        if (value instanceof Headers headers) {
            final StringBuilder b = new StringBuilder();
            headers.forEach(h -> b.append(b.isEmpty() ? "" : ",").append(h.key()).append(':').append(new String(h.value(), StandardCharsets.UTF_8)));
            return "{" + b + "}";
        }
        if (value instanceof VersionedRecord<?> v) {
            return Fns.text(v.value()) + "@" + v.timestamp() + (v.validTo().isPresent() ? "-" + v.validTo().get() : "");
        }
        if (value instanceof Windowed<?> w) {
            return "[" + Fns.text(w.key()) + "@" + w.window().start() + "/" + w.window().end() + "]";
        }
        return Fns.text(value);
    }

    private static <K, V> String rows(final KeyValueIterator<K, V> rows) {
        final StringBuilder b = new StringBuilder();
        try (rows) {
            while (rows.hasNext()) {
                final KeyValue<K, V> row = rows.next();
                b.append(b.isEmpty() ? "" : " ").append(shown(row.key)).append('=').append(shown(row.value));
            }
        }
        return b.toString();
    }

    private static Long longArg(final JsonNode fn, final String field, final Long otherwise) {
        return fn.has(field) ? (Long) fn.get(field).asLong() : otherwise;
    }

    // ------------------------------------------------------------------ the processors

    private static Step step(final JsonNode fn, final ProcessingContext context, final To to) {
        final String store = fn.has("store") ? fn.get("store").asText() : null;
        final Times times = new Times() {
            @Override
            public Cancellable schedule(final Duration interval, final PunctuationType type, final Punctuator call) {
                return context.schedule(interval, type, call);
            }

            @Override
            public long streamTime() {
                return context.currentStreamTimeMs();
            }
        };
        scheduleAll(fn, store == null ? null : context.getStateStore(store), times, to);
        return switch (Fns.name(fn)) {
            case "counter" -> counter(context.getStateStore(store), to, longArg(fn, "limit", Long.MAX_VALUE));
            case "put_count" -> {
                final KeyValueStore s = context.getStateStore(store);
                yield (k, v, t) -> {
                    if (k != null) {
                        s.put(k, 1 + Fns.number(s.get(k)));
                    }
                };
            }
            case "put_value" -> {
                final KeyValueStore s = context.getStateStore(store);
                yield (k, v, t) -> {
                    s.put(k, v);
                    to.forward(k, v, t, null);
                };
            }
            case "write_table" -> {
                final KeyValueStore s = context.getStateStore(store);
                yield (k, v, t) -> {
                    if (k != null) {
                        s.put(k, ValueAndTimestamp.make(v, t));
                    }
                    to.forward(k, v, t, null);
                };
            }
            case "keep_headers" -> keepHeaders(context.getStateStore(store), fn, to);
            case "filter_new" -> {
                final KeyValueStore s = context.getStateStore(store);
                yield (k, v, t) -> {
                    if (k != null && s.putIfAbsent(k, 1L) == null) {
                        to.forward(k, v, t, null);
                    }
                };
            }
            case "delete_on_null" -> {
                final KeyValueStore s = context.getStateStore(store);
                yield (k, v, t) -> {
                    if (k == null) {
                        return;
                    }
                    if (v == null) {
                        to.forward(k, "deleted " + shown(s.delete(k)), t, null);
                    } else {
                        final Object before = s.get(k);
                        s.put(k, Fns.number(before) + 1);
                        to.forward(k, shown(before) + " " + rows(s.range(k, null)), t, null);
                    }
                };
            }
            case "lookup" -> {
                final StateStore s = context.getStateStore(store);
                yield (k, v, t) -> to.forward(k, Fns.text(v) + "|" + (k == null ? "-" : found(s, k, t)), t, null);
            }
            case "rows" -> {
                final StateStore s = context.getStateStore(store);
                final boolean reverse = fn.has("reverse") && fn.get("reverse").asBoolean();
                yield (k, v, t) -> to.forward(k, rows(reverse ? ((KeyValueStore) s).reverseAll() : ((KeyValueStore) s).all()), t, null);
            }
            case "forward_times" -> {
                final long n = fn.get("n").asLong();
                yield (k, v, t) -> {
                    for (long i = 0; i < n; i++) {
                        to.forward(k, v, t, null);
                    }
                };
            }
            case "shift" -> {
                final long by = fn.get("ms").asLong();
                yield (k, v, t) -> to.forward(k, v, Math.max(0, t + by), null);
            }
            case "router" -> {
                final List<String> children = new ArrayList<>();
                fn.get("children").forEach(c -> children.add(c.asText()));
                yield (k, v, t) -> to.forward(k, v, t, v == null ? null : children.get((int) Math.floorMod(Fns.number(v), children.size())));
            }
            case "place" -> (k, v, t) -> to.forward(k, context.recordMetadata()
                .map(m -> ((org.apache.kafka.streams.processor.api.RecordMetadata) m))
                .map(m -> m.topic() + "-" + m.partition() + "-" + m.offset()).orElse("-")
                + " " + context.currentStreamTimeMs() + " " + context.taskId(), t, null);
            case "versioned" -> versioned((VersionedKeyValueStore) context.getStateStore(store), fn, to);
            case "window" -> window((WindowStore) context.getStateStore(store), fn, to);
            case "session" -> session((SessionStore) context.getStateStore(store), fn, to);
            case "later" -> {
                // schedules a single call, an interval of stream time after each record
                final long interval = fn.get("ms").asLong();
                yield (k, v, t) -> {
                    final Cancellable[] scheduled = new Cancellable[1];
                    final long first = context.currentStreamTimeMs();
                    scheduled[0] = context.schedule(Duration.ofMillis(interval), PunctuationType.STREAM_TIME, now -> {
                        if (now >= first + interval) {
                            scheduled[0].cancel();
                            to.forward(k, Fns.text(v) + " after " + now, now, null);
                        }
                    });
                };
            }
            default -> throw new Fns.CaseError("unknown processor " + fn);
        };
    }

    /** Puts the record with its headers, deletes for null, and forwards what was there. */
    private static Step keepHeaders(final StateStore s, final JsonNode fn, final To to) {
        if (s instanceof SessionStore x) {
            return (HeaderStep) (k, v, t, headers) -> {
                if (k != null) {
                    final Windowed session = new Windowed(k, new SessionWindow(t - t % fn.get("size_ms").asLong(), t));
                    x.put(session, v == null ? null : AggregationWithHeaders.make(v, headers));
                    to.forward(k, rows(x.fetch(k)), t, null);
                }
            };
        }
        if (s instanceof WindowStore w) {
            return (HeaderStep) (k, v, t, headers) -> {
                if (k != null) {
                    final long start = t - t % fn.get("size_ms").asLong();
                    final Object before = w.fetch(k, start);
                    w.put(k, ValueTimestampHeaders.make(v, t, headers), start);
                    to.forward(k, shown(before) + "; " + rows(w.fetch(k, Instant.ofEpochMilli(0), Instant.ofEpochMilli(t))), t, null);
                }
            };
        }
        return (HeaderStep) (k, v, t, headers) -> {
            if (k != null) {
                final KeyValueStore store = (KeyValueStore) s;
                final Object before = store.get(k);
                store.put(k, ValueTimestampHeaders.make(v, t, headers));
                to.forward(k, shown(before) + "; " + rows(store.range(k, null)), t, null);
            }
        };
    }

    private static String found(final StateStore s, final Object k, final long t) {
        if (s instanceof VersionedKeyValueStore v) {
            return shown(v.get(k)) + " " + shown(v.get(k, t));
        }
        if (s instanceof WindowStore w) {
            return rows(w.fetch(k, Instant.ofEpochMilli(0), Instant.ofEpochMilli(Math.max(0, t))));
        }
        if (s instanceof SessionStore x) {
            return rows(x.fetch(k));
        }
        return shown(((KeyValueStore) s).get(k));
    }

    private static Step counter(final KeyValueStore s, final To to, final long limit) {
        return (k, v, t) -> {
            if (k == null) {
                to.forward(null, -1L, t, null);
                return;
            }
            final Object before = s.get(k);
            if (before instanceof ValueAndTimestamp<?> old) {
                final long count = (Long) old.value() + 1;
                s.put(k, count >= limit ? null : ValueAndTimestamp.make(count, t));
                to.forward(k, count, Math.max(t, old.timestamp()), null);
            } else {
                final long count = Fns.number(before) + 1;
                final boolean stamped = s instanceof org.apache.kafka.streams.state.TimestampedKeyValueStore;
                s.put(k, count >= limit ? null : stamped ? ValueAndTimestamp.make(count, t) : (Object) count);
                to.forward(k, count, t, null);
            }
        };
    }

    private static Step versioned(final VersionedKeyValueStore s, final JsonNode fn, final To to) {
        final long back = longArg(fn, "back_ms", 5L);
        return (k, v, t) -> {
            if (k == null) {
                return;
            }
            final String did = v == null ? "deleted " + shown(s.delete(k, t)) : "valid to " + s.put(k, v, t);
            to.forward(k, did + "; " + shown(s.get(k)) + "; " + shown(s.get(k, t)) + "; "
                + (t >= back ? shown(s.get(k, t - back)) : "-"), t, null);
        };
    }

    private static Step window(final WindowStore s, final JsonNode fn, final To to) {
        final long size = fn.get("size_ms").asLong();
        final long back = longArg(fn, "back_ms", size);
        final boolean backward = fn.has("backward") && fn.get("backward").asBoolean();
        return (k, v, t) -> {
            if (k == null) {
                return;
            }
            final long start = t - t % size;
            final Object before = s.fetch(k, start);
            final Object inside = before instanceof ValueAndTimestamp<?> x ? x.value() : before;
            final String value = v == null ? null : (inside == null ? "" : inside + ",") + Fns.text(v);
            s.put(k, value == null ? null : s instanceof org.apache.kafka.streams.state.TimestampedWindowStore
                ? ValueAndTimestamp.make(value, t) : (Object) value, start);
            final Instant from = Instant.ofEpochMilli(Math.max(0, t - back));
            final Instant until = Instant.ofEpochMilli(t + size);
            final WindowStoreIterator<Object> near = backward ? s.backwardFetch(k, from, until) : s.fetch(k, from, until);
            to.forward(k, shown(before) + "; " + rows(near), t, null);
        };
    }

    private static Step session(final SessionStore s, final JsonNode fn, final To to) {
        final long gap = fn.get("gap_ms").asLong();
        final boolean backward = fn.has("backward") && fn.get("backward").asBoolean();
        return (k, v, t) -> {
            if (k == null) {
                return;
            }
            long start = t;
            long end = t;
            String value = v == null ? "" : Fns.text(v);
            final List<Windowed> merged = new ArrayList<>();
            try (KeyValueIterator<Windowed<Object>, Object> near = backward
                ? s.backwardFindSessions(k, Math.max(0, t - gap), t + gap) : s.findSessions(k, Math.max(0, t - gap), t + gap)) {
                while (near.hasNext()) {
                    final KeyValue<Windowed<Object>, Object> one = near.next();
                    merged.add(one.key);
                    start = Math.min(start, one.key.window().start());
                    end = Math.max(end, one.key.window().end());
                    value = one.value + "," + value;
                }
            }
            merged.forEach(s::remove);
            if (v != null) {
                s.put(new Windowed(k, new SessionWindow(start, end)), value);
            }
            final Object same = s.fetchSession(k, start, end);
            to.forward(k, merged.size() + " merged; " + shown(same) + "; " + rows(s.fetch(k)), t, null);
        };
    }

    // ------------------------------------------------------------------ punctuations

    private static void scheduleAll(final JsonNode fn, final StateStore store, final Times times, final To to) {
        if (fn.has("punctuate")) {
            fn.get("punctuate").forEach(one -> schedule(one, store, times, to));
        }
    }

    private static void schedule(final JsonNode one, final StateStore store, final Times times, final To to) {
        final PunctuationType type = switch (Fns.arg(one, "by")) {
            case "stream_time" -> PunctuationType.STREAM_TIME;
            case "wall_clock" -> PunctuationType.WALL_CLOCK_TIME;
            default -> throw new Fns.CaseError("unknown time in " + one);
        };
        final long until = longArg(one, "times", Long.MAX_VALUE);
        final Cancellable[] scheduled = new Cancellable[1];
        final long[] calls = new long[1];
        scheduled[0] = times.schedule(Duration.ofMillis(one.get("interval_ms").asLong()), type, now -> {
            act(one, store, times, to, now);
            if (++calls[0] >= until) {
                scheduled[0].cancel();
            }
        });
    }

    private static void act(final JsonNode one, final StateStore store, final Times times, final To to, final long now) {
        final long least = longArg(one, "at_least", 0L);
        switch (Fns.arg(one, "action")) {
            case "tick" -> to.forward("tick", text(one, now + " " + times.streamTime()), now, null);
            case "forward_rows" -> {
                try (KeyValueIterator<Object, Object> rows = all(store, one)) {
                    while (rows.hasNext()) {
                        final KeyValue<Object, Object> row = rows.next();
                        if (row.key instanceof Windowed<?> w) {
                            to.forward(w.key(), shown(row.key) + "=" + shown(row.value), now, null);
                        } else {
                            to.forward(row.key, plain(row.value), now, null);
                        }
                    }
                }
            }
            case "delete_rows" -> {
                try (KeyValueIterator<Object, Object> rows = all(store, one)) {
                    while (rows.hasNext()) {
                        final KeyValue<Object, Object> row = rows.next();
                        if (Fns.number(plain(row.value)) >= least) {
                            to.forward(row.key, plain(row.value), now, null);
                            ((KeyValueStore) store).delete(row.key);
                        }
                    }
                }
            }
            case "clear" -> {
                try (KeyValueIterator<Object, Object> rows = all(store, one)) {
                    while (rows.hasNext()) {
                        ((KeyValueStore) store).delete(rows.next().key);
                    }
                }
            }
            case "put_tick" -> {
                final KeyValueStore s = (KeyValueStore) store;
                s.put("tick", Fns.number(s.get("tick")) + 1);
            }
            case "halve" -> {
                // changes rows while it goes through them, and puts one behind all
                final KeyValueStore s = (KeyValueStore) store;
                long sum = 0;
                try (KeyValueIterator<Object, Object> rows = all(store, one)) {
                    while (rows.hasNext()) {
                        final KeyValue<Object, Object> row = rows.next();
                        sum += Fns.number(row.value);
                        s.put(row.key, Fns.number(row.value) / 2);
                    }
                }
                to.forward("sum", sum, now, null);
            }
            default -> throw new Fns.CaseError("unknown action in " + one);
        }
    }

    private static Object text(final JsonNode one, final String text) {
        return one.has("as_long") && one.get("as_long").asBoolean() ? (Object) Long.parseLong(text.split(" ")[0]) : text;
    }

    private static Object plain(final Object value) {
        if (value instanceof ValueTimestampHeaders<?> v) {
            return v.value();
        }
        return value instanceof ValueAndTimestamp<?> v ? v.value() : value;
    }

    private static KeyValueIterator<Object, Object> all(final StateStore store, final JsonNode one) {
        final boolean reverse = one.has("reverse") && one.get("reverse").asBoolean();
        if (store instanceof WindowStore w) {
            if (one.has("from")) {
                final Instant from = Instant.ofEpochMilli(one.get("from").asLong());
                final Instant until = Instant.ofEpochMilli(one.get("to").asLong());
                return reverse ? w.backwardFetchAll(from, until) : w.fetchAll(from, until);
            }
            return reverse ? w.backwardAll() : w.all();
        }
        final KeyValueStore s = (KeyValueStore) store;
        if (one.has("from")) {
            final String from = one.get("from").asText();
            final String to = one.get("to").asText();
            return reverse ? s.reverseRange(from, to) : s.range(from, to);
        }
        return reverse ? s.reverseAll() : s.all();
    }
}
