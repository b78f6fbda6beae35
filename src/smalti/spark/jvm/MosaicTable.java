package smalti.spark.jvm;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsPartitionManagement;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table: a path that was loaded or is written to, or a table of a catalog, whose partitions can be shown and dropped.
 *
 * Two tables are equal if they have the same columns and options, the path among them. So a path that is loaded again
 * hits Spark's cache, as with Parquet, unless it has other files by now: what was loaded last is never older than that.
 */
public class MosaicTable implements SupportsRead, SupportsWrite, SupportsMetadataColumns, TruncatableTable,
    SupportsPartitionManagement {
  private final StructType schema;
  private final Transform[] partitioning;
  private final Map<String, String> properties;
  private final CaseInsensitiveStringMap options;
  private final boolean ofCatalog;
  private volatile Snapshot snapshot;
  private String comment;

  /** `listed` are the files, if they were listed to know the schema. */
  MosaicTable(StructType schema, Transform[] partitioning, Map<String, String> given, Snapshot listed) {
    this.schema = schema;
    this.partitioning = partitioning;
    this.properties = given;
    this.options = Options.forPython(given);
    this.ofCatalog = Options.isTable(given);
    this.snapshot = listed == null ? new Snapshot(options, true) : listed;
    if (!ofCatalog && !options.containsKey(Options.BEGUN)) Caches.add(this);
  }

  public String name() {
    return snapshot.name();
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
    return new MetadataColumn[] {new Hidden()};
  }

  /** Spark calls the hidden column otherwise where the table has a column of its name, as it does for its own formats. */
  public boolean canRenameConflictingMetadataColumns() {
    return true;
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
   * df.write on a path goes through MosaicSource.createRelation, which knows all modes: Spark calls it if a table has no
   * other way to be written to than V1_BATCH_WRITE. Tables of a catalog, and writes that have begun, are written directly.
   */
  public Set capabilities() {
    // The rows are as Python has checked them: to compare 10,000 columns with themselves takes Spark seconds.
    if (options.containsKey(Options.BEGUN)) return Set.of(TableCapability.BATCH_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    if (!ofCatalog)
      return Set.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ, TableCapability.V1_BATCH_WRITE,
          TableCapability.TRUNCATE);
    return Set.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_WRITE,
        TableCapability.STREAMING_WRITE, TableCapability.TRUNCATE, TableCapability.OVERWRITE_BY_FILTER,
        TableCapability.OVERWRITE_DYNAMIC);
  }

  /** The options of the table, and over them those that a query or a write gives. */
  private CaseInsensitiveStringMap with(CaseInsensitiveStringMap more) {
    return Options.merge(options.asCaseSensitiveMap(), Options.forPython(more.asCaseSensitiveMap()));
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
    CaseInsensitiveStringMap all = with(more);
    return new MosaicScan(all.equals(options) ? snapshot : new Snapshot(all, true), schema);
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    String job = (String) options.get(Options.BEGUN);
    if (job != null) return MosaicSource.write(job);
    Map<String, String> all = forWriting(with(info.options()));
    return ofCatalog ? (WriteBuilder) new MosaicWrite(info.schema(), all, partitionNames(), "append", null)
        : new MosaicWrite.Insert(all);
  }

  private Map<String, String> forWriting(CaseInsensitiveStringMap given) {
    Map<String, String> all = new LinkedHashMap<String, String>(given.asCaseSensitiveMap());
    if (partitioning.length > 0) all.put("partitionBy", Options.json(partitionNames()));
    return all;
  }

  String[] partitionNames() {
    String[] names = new String[partitioning.length];
    for (int index = 0; index < names.length; index++) names[index] = partitioning[index].references()[0].fieldNames()[0];
    return names;
  }

  public boolean truncateTable() {
    removeRows(Collections.emptyMap());
    return true;
  }

  /** Whether this table is at, above or below a path. */
  boolean mayHave(String path) {
    return Options.overlap(options, path);
  }

  /** Whether the files were listed. Before that, the table has nothing to forget. */
  boolean isListed() {
    return snapshot.isListed();
  }

  /** List the files again when they are next asked for. */
  void forget() {
    snapshot = new Snapshot(options, true);
  }

  /** How a job of smalti is called for this table. */
  String job(String name, String arguments) {
    return "smalti.jobs." + name + "(" + Options.json(Options.shown((String) options.get("path"))) + ", " + arguments + ")";
  }

  void refuse(String operation) {
    MosaicSource.refuse(name(), operation);
  }

  /** Those of some columns that files have, although they were renamed, or do not fit new types; with their types. */
  Map<String, Object> unfit(List<String[]> renamed, StructType retyped) {
    return (Map<String, Object>) Planner.ask("unfit", Planner.details("options", options.asCaseSensitiveMap(), "session",
        Options.session(), "renamed", renamed, "schema", retyped.json())).get("unfit");
  }

  /** Remove all rows, or those of the partitions with some values. */
  private void removeRows(Map<String, String> partition) {
    Planner.ask("truncate",
        Planner.details("partition", partition, "options", forWriting(options), "schema", schema.json()));
    Caches.refresh((String) options.get("path"));
  }

  // --- partitions, which are what the directories of a table are --------------------------------------------------

  public StructType partitionSchema() {
    StructType found = new StructType();
    for (String name : partitionNames()) found = found.add(schema.apply(name));
    return found;
  }

  /** The partitions with these values in these columns. */
  public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow values) {
    StructType partitions = partitionSchema();
    Map<String, Object> details = Planner.details("schema", partitions.json());
    List<InternalRow> found = new ArrayList<InternalRow>();
    for (Object row : (List<Object>) snapshot.ask("partitions", details).get("values")) {
      GenericInternalRow converted = IndexScan.row(row, partitions);
      boolean matches = true;
      for (int index = 0; index < names.length; index++) {
        int column = partitions.fieldIndex(names[index]);
        Object wanted = values.get(index, partitions.fields()[column].dataType());
        matches = matches && Objects.equals(wanted, converted.genericGet(column));
      }
      if (matches) found.add(converted);
    }
    return (InternalRow[]) found.toArray(new InternalRow[0]);
  }

  public boolean dropPartition(InternalRow values) {
    StructType partitions = partitionSchema();
    Map<String, String> wanted = new LinkedHashMap<String, String>();
    for (int index = 0; index < partitions.size(); index++) {
      StructField field = partitions.fields()[index];
      Object value = values.get(index, field.dataType());
      wanted.put(field.name(), value == null ? null : text(value, field.dataType()));
    }
    removeRows(wanted);
    return true;
  }

  /** A partition value, which Spark holds as in rows, as text: that of its directory, or one that is read as the same value. */
  static String text(Object value, DataType type) {
    if (type instanceof DateType) return LocalDate.ofEpochDay(((Integer) value).longValue()).toString();
    if (type instanceof TimestampType) return DateTimeUtils.microsToInstant(((Long) value).longValue()).toString();
    if (type instanceof TimestampNTZType) return DateTimeUtils.microsToLocalDateTime(((Long) value).longValue()).toString();
    return value.toString();
  }

  public boolean truncatePartition(InternalRow values) {
    return dropPartition(values);
  }

  public void createPartition(InternalRow values, Map properties) {
    throw new UnsupportedOperationException("a partition of a Mosaic table is there as soon as it has rows");
  }

  public void replacePartitionMetadata(InternalRow values, Map properties) {
    throw new UnsupportedOperationException("partitions of Mosaic tables have no properties");
  }

  public Map loadPartitionMetadata(InternalRow values) {
    return Collections.emptyMap();
  }

  public boolean equals(Object other) {
    if (!(other instanceof MosaicTable)) return false;
    MosaicTable table = (MosaicTable) other;
    return this == other || schema.equals(table.schema) && options.equals(table.options)
        && (ofCatalog || snapshot.sameFiles(table.snapshot));
  }

  public int hashCode() {
    return Objects.hash(schema, options);
  }

  /** The hidden column _metadata, with what Spark's own formats tell of a row and its file, and the row group. */
  static final class Hidden implements MetadataColumn {
    public String name() {
      return "_metadata";
    }

    public DataType dataType() {
      return new StructType().add("file_path", DataTypes.StringType, false).add("file_name", DataTypes.StringType, false)
          .add("file_size", DataTypes.LongType, false).add("file_block_start", DataTypes.LongType, false)
          .add("file_block_length", DataTypes.LongType, false)
          .add("file_modification_time", DataTypes.TimestampType, false).add("row_group", DataTypes.IntegerType, false)
          .add("row_index", DataTypes.LongType, true);
    }

    public boolean isNullable() {
      return false;
    }

    public String comment() {
      return "The file of a row, its row group and its number in it";
    }
  }
}
