package smalti.spark.jvm;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The sink of a stream to a path. Each batch is one write, which names the query and the number of the batch, so that a
 * batch that Spark runs again is left out.
 */
public class MosaicSink implements Sink {
  /** Where Spark tells a batch the id of its query, which lasts as long as the checkpoint. */
  private static final String QUERY_ID = "sql.streaming.queryId";
  private final Map<String, String> options;
  private final OutputMode mode;

  MosaicSink(Map<String, String> options, OutputMode mode) {
    this.options = options;
    this.mode = mode;
  }

  public void addBatch(long batch, org.apache.spark.sql.Dataset given) {
    Dataset data = (Dataset) given;
    SparkSession session = (SparkSession) data.sparkSession();
    Map<String, String> all = new LinkedHashMap<String, String>(options);
    CaseInsensitiveStringMap seen = new CaseInsensitiveStringMap(options);
    if (!seen.containsKey("streamId") && !seen.containsKey("checkpointLocation"))
      all.put("streamId", session.sparkContext().getLocalProperty(QUERY_ID));
    // The plan of a batch is for this run only; its rows are written as those of any other DataFrame.
    Dataset rows = session.internalCreateDataFrame(data.queryExecution().toRdd(), data.schema(), false);
    MosaicSource.save(rows, all, mode.equals(OutputMode.Complete()) ? "overwrite" : "append", Long.valueOf(batch));
  }

  public String toString() {
    return "mosaic[" + Options.shown((String) options.get("path")) + "]";
  }
}
