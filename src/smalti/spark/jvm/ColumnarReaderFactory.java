package smalti.spark.jvm;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Makes the readers of a scan, in the tasks. What to read travels pickled; only Python looks into it. */
final class ColumnarReaderFactory implements PartitionReaderFactory {
  private final String python;
  private final scala.collection.immutable.Map environment;
  private final byte[] scan;
  private final StructType schema;

  ColumnarReaderFactory(byte[] scan, StructType schema) {
    this.python = Planner.python().pythonExec();
    this.environment = Worker.environment();
    this.scan = scan;
    this.schema = schema;
  }

  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    MosaicPartition given = (MosaicPartition) partition;
    return new ColumnarReader(python, environment, given.scan(scan), given.split, schema);
  }

  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("Mosaic files are read in columns");
  }
}
