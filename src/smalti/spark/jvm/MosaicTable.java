package smalti.spark.jvm;

import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table: a path that was loaded or is written to, or a table of a catalog.
 *
 * Two tables are equal if they have the same columns and options, the path among them. So a path that is loaded again
 * hits Spark's cache, as with Parquet.
 */
public class MosaicTable implements SupportsRead, SupportsWrite, SupportsMetadataColumns, TruncatableTable {
  private final StructType schema;
  private final Transform[] partitioning;
  private final Map<String, String> properties;
  private final CaseInsensitiveStringMap options;
  private final boolean ofCatalog;
  private Snapshot snapshot;
  private String comment;

  MosaicTable(StructType schema, Transform[] partitioning, Map<String, String> given, Snapshot snapshot) {
    this.schema = schema;
    this.partitioning = partitioning;
    this.properties = given;
    this.options = Options.forPython(given);
    this.ofCatalog = Options.isTable(given);
    this.snapshot = snapshot;
  }

  public String name() {
    return MosaicSource.FORMAT + " " + Options.shown((String) options.get("path"));
  }

  /** As errors of Spark's name the table. */
  public String toString() {
    return name();
  }

  public StructType schema() {
    return schema;
  }

  public Transform[] partitioning() {
    return partitioning;
  }

  public MetadataColumn[] metadataColumns() {
    return new MetadataColumn[] {new MetadataColumns()};
  }

  public Map properties() {
    Map<String, String> shown = new LinkedHashMap<String, String>(properties);
    String path = (String) shown.remove("path");
    if (ofCatalog && path != null) {
      shown.put("location", path);
      shown.put("provider", MosaicSource.FORMAT);
    }
    if (comment != null) shown.put("comment", comment);
    return Collections.unmodifiableMap(shown);
  }

  /** The comment that the catalog has; see MosaicExtensions. */
  final void setComment(String comment) {
    this.comment = comment;
  }

  /**
   * df.write on a path goes through MosaicSource.createRelation, which knows all modes: Spark takes that road where a
   * table has V1_BATCH_WRITE only. Tables of a catalog, and writes that have begun there, are written to directly.
   */
  public Set capabilities() {
    // The rows are as Python has checked them: to compare 10,000 columns with themselves takes Spark seconds.
    if (options.containsKey(Options.JOB)) return EnumSet.of(TableCapability.BATCH_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    if (!ofCatalog)
      return EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ, TableCapability.V1_BATCH_WRITE,
          TableCapability.TRUNCATE);
    return EnumSet.copyOf(Arrays.asList(new TableCapability[] {TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ,
      TableCapability.BATCH_WRITE, TableCapability.STREAMING_WRITE, TableCapability.TRUNCATE,
      TableCapability.OVERWRITE_BY_FILTER, TableCapability.OVERWRITE_DYNAMIC}));
  }

  /** The files, listed when the table was loaded, or else when they are first asked for. */
  private synchronized Snapshot snapshot() {
    if (snapshot == null) snapshot = Snapshot.take(options, schema);
    return snapshot;
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
    Map<String, String> all = Options.merge(options, Options.forPython(more.asCaseSensitiveMap()));
    Snapshot files = new CaseInsensitiveStringMap(all).equals(options) ? null : Snapshot.take(new CaseInsensitiveStringMap(all), schema);
    return new MosaicScanBuilder(schema, files, this);
  }

  Snapshot files() {
    return snapshot();
  }

  CaseInsensitiveStringMap options() {
    return options;
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    Map<String, String> all = Options.merge(options, Options.forPython(info.options().asCaseSensitiveMap()));
    if (partitioning.length > 0) all.put("partitionBy", Options.names(partitionNames()));
    return new MosaicWriteBuilder(info, all, partitionNames(), ofCatalog);
  }

  final String[] partitionNames() {
    String[] names = new String[partitioning.length];
    for (int place = 0; place < names.length; place++) names[place] = partitioning[place].references()[0].fieldNames()[0];
    return names;
  }

  public boolean truncateTable() {
    removeRows(Collections.emptyMap());
    return true;
  }

  /** Remove all rows, or those of the partitions with some values. */
  final void removeRows(Map<String, String> partition) {
    Map<String, String> all = new LinkedHashMap<String, String>(options.asCaseSensitiveMap());
    if (partitioning.length > 0) all.put("partitionBy", Options.names(partitionNames()));
    Map<String, Object> details = new HashMap<String, Object>();
    details.put("partition", partition);
    details.put("options", all);
    details.put("schema", schema.json());
    Planner.ask("truncate", details);
  }

  public boolean equals(Object other) {
    if (!(other instanceof MosaicTable)) return false;
    MosaicTable table = (MosaicTable) other;
    return schema.equals(table.schema) && options.equals(table.options);
  }

  public int hashCode() {
    return Objects.hash(new Object[] {schema, options});
  }
}
