package smalti.spark.jvm;

import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The hidden column _metadata, with what Spark's own formats tell of a row and its file, and the row group. */
final class MetadataColumns implements MetadataColumn {
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
