import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Keeps a copy of the records of some models in SQLite, from the compacted state topics alone ({@code kafka.state: true}): read
 * from the beginning they contain every record, and then every change.
 *
 * <p>A transaction commits the copy together with the offsets up to which it is complete, so a restart at any moment neither
 * loses a change nor applies one twice. Per record the greater (generation, version) wins; late and repeated messages change
 * nothing.
 *
 * <pre>
 * Mirror            follow until Ctrl-C
 * Mirror --once     catch up with what Kafka has now, then end
 * Mirror --print    print the copy, one record per line
 * </pre>
 */
public final class Mirror {
  private static final String BROKERS = setting("KAFKA_BROKERS", "localhost:9092");
  private static final String TEMPLATE = setting("ROLLCALL_TOPIC", "rollcall.{model}");
  private static final List<String> MODELS = Arrays.asList(setting("MODELS", "ats.application").split(","));
  private static final String FILE = setting("MIRROR_FILE", "mirror.db");
  private static final String API = setting("ROLLCALL_URL", "http://127.0.0.1:8477");
  private static final ObjectMapper JSON = new ObjectMapper();

  private static final String RECORDS =
      """
      CREATE TABLE IF NOT EXISTS records (
        integration TEXT, model TEXT, id TEXT, generation INTEGER, version INTEGER,
        content TEXT, -- NULL: deleted; the version stays, so that a late message does not bring the record back
        PRIMARY KEY (integration, model, id))
      """;
  private static final String OFFSETS =
      "CREATE TABLE IF NOT EXISTS offsets (topic TEXT, part INTEGER, next INTEGER, PRIMARY KEY (topic, part))";
  private static final String APPLY =
      """
      INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET generation = excluded.generation, version = excluded.version, content = excluded.content
      WHERE excluded.generation > records.generation
        OR excluded.generation = records.generation AND excluded.version > records.version
      """;

  private static String setting(String name, String otherwise) {
    String value = System.getenv(name);
    return value == null || value.isEmpty() ? otherwise : value;
  }

  private static String header(ConsumerRecord<String, String> message, String name) {
    var header = message.headers().lastHeader(name);
    return header == null ? null : new String(header.value(), StandardCharsets.UTF_8);
  }

  private static HttpResponse<String> get(String path) throws IOException, InterruptedException {
    var request = HttpRequest.newBuilder(URI.create(API + path));
    String token = System.getenv("ROLLCALL_HTTP_READ_TOKEN");
    if (token != null) {
      request.header("Authorization", "Bearer " + token);
    }
    return HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString());
  }

  private static JsonNode bodyOf(HttpResponse<String> response) throws IOException {
    if (response.statusCode() != 200) {
      throw new IOException(response.uri().getPath() + " answered with status " + response.statusCode());
    }
    return JSON.readTree(response.body());
  }

  /**
   * A record too large for Kafka: the log has the whole event. Null if its content was erased or forgotten since: then the log
   * answers with a later event, and a delete follows. If the log no longer has this place (it is past retention, or the store was
   * replaced), the current record is as new or newer.
   */
  private static String fetch(ConsumerRecord<String, String> message) throws IOException, InterruptedException {
    var response = get(JSON.readTree(message.value()).get("log").asText());
    if (response.statusCode() == 410) {
      return current(message);
    }
    JsonNode event = bodyOf(response).at("/events/0");
    return event.path("id").asText().equals(header(message, "ce_id")) ? event.at("/data/after").toString() : null;
  }

  /** The current content of the record; null if it is deleted, or if its integration was erased. */
  private static String current(ConsumerRecord<String, String> message) throws IOException, InterruptedException {
    var path = new StringBuilder("/v1/records?integration=").append(encoded(header(message, "ce_integration")));
    path.append("&model=").append(encoded(header(message, "ce_model")));
    path.append("&id=").append(encoded(header(message, "ce_subject")));
    var response = get(path.toString());
    if (response.statusCode() == 404) {
      return null;
    }
    JsonNode content = bodyOf(response).at("/records/0/after");
    return content.isMissingNode() ? null : content.toString();
  }

  private static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8);
  }

  private static void apply(PreparedStatement statement, ConsumerRecord<String, String> message)
      throws SQLException, IOException, InterruptedException {
    String content = message.value();
    if ("true".equals(header(message, "ce_stub"))) {
      content = fetch(message);
    }
    statement.setString(1, header(message, "ce_integration"));
    statement.setString(2, header(message, "ce_model"));
    statement.setString(3, header(message, "ce_subject"));
    statement.setLong(4, Long.parseLong(header(message, "ce_generation")));
    statement.setLong(5, Long.parseLong(header(message, "ce_recordversion")));
    statement.setString(6, content);
    statement.executeUpdate();
    System.out.printf(
        "applied %s %s %s%n", content == null ? "deleted" : "state", message.key(), header(message, "ce_recordversion"));
  }

  /** Where to continue: after the last message that the copy contains, or at the beginning. */
  private static Map<TopicPartition, Long> positions(Connection db, KafkaConsumer<String, String> consumer)
      throws SQLException {
    var next = new HashMap<TopicPartition, Long>();
    for (String model : MODELS) {
      String topic = TEMPLATE.replace("{model}", model) + ".state";
      for (var partition : consumer.partitionsFor(topic)) {
        next.put(new TopicPartition(topic, partition.partition()), 0L);
      }
    }
    try (var rows = db.createStatement().executeQuery("SELECT topic, part, next FROM offsets")) {
      while (rows.next()) {
        next.put(new TopicPartition(rows.getString(1), rows.getInt(2)), rows.getLong(3));
      }
    }
    return next;
  }

  private static void follow(Connection db, KafkaConsumer<String, String> consumer, boolean once)
      throws SQLException, IOException, InterruptedException {
    var next = positions(db, consumer);
    consumer.assign(next.keySet());
    next.forEach(consumer::seek);
    var ends = consumer.endOffsets(next.keySet());
    db.setAutoCommit(false);
    try (var apply = db.prepareStatement(APPLY);
        var save = db.prepareStatement("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)")) {
      while (true) {
        for (var message : consumer.poll(Duration.ofSeconds(1))) {
          apply(apply, message);
        }
        for (var partition : next.keySet()) {
          save.setString(1, partition.topic());
          save.setInt(2, partition.partition());
          save.setLong(3, consumer.position(partition));
          save.executeUpdate();
        }
        db.commit(); // the changes of a batch and their offsets
        if (once && ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) >= end.getValue())) {
          return;
        }
      }
    }
  }

  private static void print(Connection db) throws SQLException, IOException {
    String live = "SELECT * FROM records WHERE content IS NOT NULL ORDER BY integration, model, id";
    try (var rows = db.createStatement().executeQuery(live)) {
      while (rows.next()) {
        ObjectNode record = JSON.createObjectNode();
        for (String name : List.of("integration", "model", "id")) {
          record.put(name, rows.getString(name));
        }
        record.put("generation", rows.getLong("generation")).put("version", rows.getLong("version"));
        JsonNode content = JSON.readTree(rows.getString("content"));
        System.out.println(record.<ObjectNode>set("after", content));
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    var modes = List.of(arguments);
    try (Connection db = DriverManager.getConnection("jdbc:sqlite:" + FILE)) {
      db.createStatement().execute(RECORDS);
      db.createStatement().execute(OFFSETS);
      if (modes.contains("--print")) {
        print(db);
        return;
      }
      Map<String, Object> settings =
          Map.of(
              ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, BROKERS,
              ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
              ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false,
              ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"); // compaction may have removed the next message
      try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
        Thread main = Thread.currentThread();
        Runtime.getRuntime()
            .addShutdownHook(
                new Thread(
                    () -> {
                      consumer.wakeup();
                      try {
                        main.join();
                      } catch (InterruptedException ignored) {
                        Thread.currentThread().interrupt();
                      }
                    }));
        follow(db, consumer, modes.contains("--once"));
      } catch (WakeupException stopped) {
        System.out.println("stopped");
      }
    }
  }
}
