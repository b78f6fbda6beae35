package smalti.spark.jvm;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.connector.catalog.SupportsPartitionManagement;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** A table of a catalog whose partitions can be shown and dropped. They are what its directories are. */
public class PartitionedTable extends MosaicTable implements SupportsPartitionManagement {
  private final StructType partitions;

  PartitionedTable(StructType schema, Transform[] partitioning, Map<String, String> given, Snapshot listed) {
    super(schema, partitioning, given, listed);
    StructType found = new StructType();
    for (String name : partitionNames()) found = found.add(schema.apply(name));
    this.partitions = found;
  }

  public StructType partitionSchema() {
    return partitions;
  }

  /** The partitions with these values in these columns. */
  public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow values) {
    Map<String, Object> details = Planner.details("schema", partitions.json());
    List<InternalRow> found = new ArrayList<InternalRow>();
    for (Object row : (List<Object>) files.ask("partitions", details).get("values")) {
      Object[] converted = IndexScan.row(((List<Object>) row).toArray(), partitions);
      boolean matches = true;
      for (int place = 0; place < names.length; place++) {
        int column = partitions.fieldIndex(names[place]);
        Object wanted = values.get(place, partitions.fields()[column].dataType());
        matches = matches && (wanted == null ? converted[column] == null : wanted.equals(converted[column]));
      }
      if (matches) found.add(new GenericInternalRow(converted));
    }
    return (InternalRow[]) found.toArray(new InternalRow[0]);
  }

  public boolean dropPartition(InternalRow values) {
    Map<String, String> wanted = new LinkedHashMap<String, String>();
    for (int place = 0; place < partitions.size(); place++) {
      StructField field = partitions.fields()[place];
      Object value = values.get(place, field.dataType());
      wanted.put(field.name(), value == null ? null : text(value, field.dataType()));
    }
    removeRows(wanted);
    return true;
  }

  /** A value, as Spark holds it in rows, as the text that names its directory, or that means the same. */
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
}
