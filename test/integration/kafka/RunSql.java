import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Runs the statements of a file with Flink SQL, and prints the changes of each query: the kind, a tab, and the row. */
public class RunSql {
  public static void main(String[] arguments) throws Exception {
    TableEnvironment flink = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
    flink.getConfig().set("parallelism.default", "1");
    for (String statement : Files.readString(Path.of(arguments[0])).split(";\n")) {
      if (statement.isBlank()) continue;
      if (!statement.stripLeading().startsWith("SELECT")) {
        flink.executeSql(statement);
        continue;
      }
      try (CloseableIterator<Row> rows = flink.executeSql(statement).collect()) {
        while (rows.hasNext()) {
          Row row = rows.next();
          System.out.println(row.getKind().shortString() + "\t" + row.getField(0) + "\t" + row.getField(1));
        }
      }
    }
  }
}
