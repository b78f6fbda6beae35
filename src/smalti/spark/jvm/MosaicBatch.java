package smalti.spark.jvm;

import java.util.Arrays;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/**
 * The tasks of a scan. Spark compares batches to find a broadcast that a filter at run time can use again.
 *
 * Spark asks one batch for the factory of readers, and after a filter at run time another one for the partitions, so
 * these bring the filtered scan along.
 */
public class MosaicBatch implements Batch {
  private final MosaicScan scan;
  private final Predicate[] runtime;

  MosaicBatch(MosaicScan scan, Predicate[] runtime) {
    this.scan = scan;
    this.runtime = runtime;
  }

  /** The planner's answer: first what all tasks have in common, then what each of them reads. */
  public InputPartition[] planInputPartitions() {
    byte[][] parts = (runtime.length == 0 ? scan.plan() : scan.plan(runtime)).parts;
    return ColumnarReader.tasks(parts, runtime.length > 0);
  }

  public PartitionReaderFactory createReaderFactory() {
    return new ColumnarReader.Factory(scan.plan().parts[0], scan.required);
  }

  public boolean equals(Object other) {
    return other instanceof MosaicBatch && scan.equals(((MosaicBatch) other).scan)
        && Arrays.equals(runtime, ((MosaicBatch) other).runtime);
  }

  public int hashCode() {
    return scan.hashCode();
  }
}
