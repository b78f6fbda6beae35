package smalti.spark.jvm;

import java.util.Map;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** A stream of a table. Python knows what an offset means; here it is the text that Spark keeps in its checkpoint. */
final class MosaicStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  private final Map<String, String> options;
  private final Map<String, String> session = Options.session();
  private final MosaicScan scan;
  private Planner.Answer start;
  /** With Trigger.AvailableNow: what there was when the stream started. */
  private Object available;

  MosaicStream(MosaicScan scan) {
    this.options = scan.snapshot.given.asCaseSensitiveMap();
    this.scan = scan;
  }

  private Planner.Answer ask(String question, Map<String, Object> details) {
    details.put("options", options);
    details.put("session", session);
    return Planner.ask(question, details);
  }

  private Planner.Answer start() {
    if (start == null) start = ask("offsets", Planner.details());
    return start;
  }

  public Offset initialOffset() {
    return offset(start().text("first"));
  }

  public ReadLimit getDefaultReadLimit() {
    return start().has("maxFiles") ? ReadLimit.maxFiles((int) start().number("maxFiles")) : ReadLimit.allAvailable();
  }

  public void prepareForTriggerAvailableNow() {
    available = ask("offsets", Planner.details()).get("available");
  }

  public Offset latestOffset(Offset from, ReadLimit limit) {
    Object most = limit instanceof ReadMaxFiles ? (Object) ((ReadMaxFiles) limit).maxFiles() : null;
    Map<String, Object> details = Planner.details("start", from.json(), "available", available, "maxFiles", most);
    return offset(ask("offsets", details).text("next"));
  }

  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks with a limit");
  }

  public InputPartition[] planInputPartitions(Offset from, Offset to) {
    Map<String, Object> details = Planner.details("schema", scan.required.json(), "defaults",
        Filters.defaults(scan.required), "hidden", scan.hidden(), "start", from.json(), "end", to.json());
    return ColumnarReader.tasks(ask("batch", details).parts, true);
  }

  public PartitionReaderFactory createReaderFactory() {
    return new ColumnarReader.Factory(null, scan.required); // tasks bring the scan along
  }

  public Offset deserializeOffset(String json) {
    return offset(json);
  }

  public void commit(Offset end) {}

  public void stop() {}

  /** An offset, as the text that Spark keeps. */
  private static Offset offset(final String text) {
    return new Offset() {
      public String json() {
        return text;
      }
    };
  }
}
