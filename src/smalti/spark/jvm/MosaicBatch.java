package smalti.spark.jvm;

import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;

/** The tasks of a scan. Spark compares batches to find a broadcast that a filter at run time can use again. */
public class MosaicBatch implements Batch {
  private final MosaicScan scan;

  MosaicBatch(MosaicScan scan) {
    this.scan = scan;
  }

  /** The planner's answer: first what all tasks have in common, then what each of them reads. */
  public InputPartition[] planInputPartitions() {
    byte[][] parts = scan.plan().parts;
    InputPartition[] partitions = new InputPartition[parts.length - 1];
    for (int place = 1; place < parts.length; place++)
      partitions[place - 1] = new PythonInputPartition(place - 1, parts[place]);
    return partitions;
  }

  public PartitionReaderFactory createReaderFactory() {
    PythonFunction python = Planner.python(new byte[0]);
    return new ColumnarReaderFactory(python.pythonExec(), Worker.environment(python), scan.plan().parts[0], scan.required);
  }

  public boolean equals(Object other) {
    return other instanceof MosaicBatch && scan.equals(((MosaicBatch) other).scan);
  }

  public int hashCode() {
    return scan.hashCode();
  }
}
