package smalti.spark.jvm;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One write: appended, in place of everything, of the partitions that get rows, or of the partitions that are named. */
public class MosaicWriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite {
  private final LogicalWriteInfo info;
  private final Map<String, String> options;
  private final List<String> partitions;
  private final boolean direct;
  private boolean overwrite;

  MosaicWriteBuilder(LogicalWriteInfo info, Map<String, String> options, String[] partitions, boolean direct) {
    this.info = info;
    this.options = options;
    this.partitions = Arrays.asList(partitions);
    this.direct = direct;
    Options.addSessionTo(options);
  }

  public WriteBuilder truncate() {
    overwrite = true;
    return this;
  }

  public WriteBuilder overwriteDynamicPartitions() {
    overwrite = true;
    if (!partitions.isEmpty()) options.put("partitionOverwriteMode", "dynamic"); // a table without partitions is one
    return this;
  }

  public boolean canOverwrite(Predicate[] conditions) {
    return partition(conditions) != null;
  }

  public WriteBuilder overwrite(Predicate[] conditions) {
    overwrite = true;
    Map<String, Object> values = partition(conditions);
    options.put("partitionOverwriteMode", "static");
    if (!values.isEmpty()) options.put(Options.PARTITION, Options.json(values));
    return this;
  }

  /**
   * The values that conditions ask of partition columns; null if they ask for anything else than that these equal
   * values. Whole files are replaced, so a condition on any other column, as INSERT INTO .. REPLACE WHERE may have it,
   * is refused: it would leave the rows that it is about.
   */
  private Map<String, Object> partition(Predicate[] conditions) {
    Map<String, Object> values = new LinkedHashMap<String, Object>();
    for (Predicate condition : conditions) {
      if (condition instanceof AlwaysTrue) continue;
      Expression[] sides = condition.children();
      if (sides.length == 0 || !(sides[0] instanceof NamedReference)) return null;
      String[] names = ((NamedReference) sides[0]).fieldNames();
      if (names.length != 1 || !partitions.contains(names[0]) || values.containsKey(names[0])) return null;
      boolean isNull = "IS_NULL".equals(condition.name()); // which Spark makes of "<=> NULL"
      boolean isEqual = "<=>".equals(condition.name()) || "=".equals(condition.name());
      if (!isNull && !(isEqual && sides[1] instanceof Literal)) return null;
      Object value = isNull ? null : ((Literal) sides[1]).value();
      if (value == null && "=".equals(condition.name())) return null; // equals nothing, not even null
      values.put(names[0], value == null ? null : PartitionedTable.text(value, ((Literal) sides[1]).dataType()));
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
