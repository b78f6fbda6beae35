package smalti.spark.jvm;

import java.sql.Timestamp;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwrite;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.sources.AlwaysTrue;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One write: appended, in place of everything, of the partitions that get rows, or of the partitions that are named. */
public class MosaicWriteBuilder implements SupportsOverwrite, SupportsDynamicOverwrite {
  private final LogicalWriteInfo info;
  private final Map<String, String> options;
  private final boolean direct;
  private boolean overwrite;

  MosaicWriteBuilder(LogicalWriteInfo info, Map<String, String> options, boolean direct) {
    this.info = info;
    this.options = options;
    this.direct = direct;
    Options.addSessionTo(options);
  }

  public WriteBuilder truncate() {
    overwrite = true;
    return this;
  }

  public WriteBuilder overwriteDynamicPartitions() {
    overwrite = true;
    options.put("partitionOverwriteMode", "dynamic");
    return this;
  }

  public boolean canOverwrite(Filter[] filters) {
    return partition(filters) != null;
  }

  public WriteBuilder overwrite(Filter[] filters) {
    overwrite = true;
    Map<String, Object> values = partition(filters);
    options.put("partitionOverwriteMode", "static");
    if (!values.isEmpty()) options.put(Options.PARTITION, Options.json(values));
    return this;
  }

  /** The values that the filters ask of columns; null if they ask for anything else than that columns equal values. */
  private static Map<String, Object> partition(Filter[] filters) {
    Map<String, Object> values = new LinkedHashMap<String, Object>();
    for (Filter filter : filters) {
      if (filter instanceof AlwaysTrue) continue;
      String column;
      Object value;
      if (filter instanceof EqualTo) {
        column = ((EqualTo) filter).attribute();
        value = ((EqualTo) filter).value();
      } else if (filter instanceof EqualNullSafe) {
        column = ((EqualNullSafe) filter).attribute();
        value = ((EqualNullSafe) filter).value();
      } else {
        return null;
      }
      if (value instanceof Timestamp) value = ((Timestamp) value).toInstant(); // whose text names its zone
      values.put(column, value == null ? null : String.valueOf(value));
    }
    return values;
  }

  public Write build() {
    if (!direct) return new Insert(options, overwrite);
    return new PythonWrite(new PythonSource(), MosaicSource.FORMAT, new Info(info, options), overwrite);
  }

  /** The same write with other options. */
  static class Info implements LogicalWriteInfo {
    private final LogicalWriteInfo info;
    private final CaseInsensitiveStringMap options;

    Info(LogicalWriteInfo info, Map<String, String> options) {
      this.info = info;
      this.options = new CaseInsensitiveStringMap(options);
    }

    public CaseInsensitiveStringMap options() {
      return options;
    }

    public String queryId() {
      return info.queryId();
    }

    public StructType schema() {
      return info.schema();
    }
  }

  /** INSERT INTO a temporary view of a path: Spark wants a write of the first kind where df.write takes that road. */
  static class Insert implements V1Write, InsertableRelation {
    private final Map<String, String> options;
    private final boolean overwrite;

    Insert(Map<String, String> options, boolean overwrite) {
      this.options = options;
      this.overwrite = overwrite;
    }

    public InsertableRelation toInsertableRelation() {
      return this;
    }

    public void insert(Dataset rows, boolean ignored) {
      Map<String, String> given = new LinkedHashMap<String, String>();
      for (Map.Entry<String, String> entry : options.entrySet())
        if (!((String) entry.getKey()).startsWith("smalti.")) given.put(entry.getKey(), entry.getValue());
      rows.write().format(MosaicSource.FORMAT).options(given).mode(overwrite ? SaveMode.Overwrite : SaveMode.Append).save();
    }
  }
}
