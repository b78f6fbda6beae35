package smalti.spark.jvm;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
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
import org.apache.spark.sql.sources.InsertableRelation;

/** One write: appended, in place of everything, of the partitions that get rows, or of the partitions that are named. */
public class MosaicWriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite {
  private final LogicalWriteInfo info;
  private final Map<String, String> options;
  private final List<String> partitions;
  private final boolean isTable;
  private boolean overwrite;
  private Map<String, Object> replaced = new LinkedHashMap<String, Object>();

  MosaicWriteBuilder(LogicalWriteInfo info, Map<String, String> options, String[] partitions, boolean isTable) {
    this.info = info;
    this.options = options;
    this.partitions = Arrays.asList(partitions);
    this.isTable = isTable;
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
    replaced = partition(conditions);
    options.put("partitionOverwriteMode", "static");
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
    String job = (String) options.get(Options.JOB);
    if (job != null) return MosaicSource.write(job);
    if (!isTable) return new Insert(options, overwrite);
    Map<String, Object> details = new LinkedHashMap<String, Object>();
    details.put("options", options);
    details.put("mode", overwrite ? "overwrite" : "append");
    details.put("partition", replaced);
    return new MosaicWrite(info.schema(), details, (String[]) partitions.toArray(new String[partitions.size()]));
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
      MosaicSource.save(rows, options, overwrite ? "overwrite" : "append", null);
    }
  }
}
