package smalti.spark.jvm;

import java.util.Arrays;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.sources.Filter;
import scala.reflect.ClassTag$;

/**
 * The tasks of a scan. Spark compares batches to find a broadcast that a filter at run time can use again.
 *
 * Spark asks one batch for the factory of readers, and after a filter at run time another one for the partitions, so
 * these bring the filtered scan along.
 */
public class MosaicBatch implements Batch {
  private final MosaicScan scan;
  private final Filter[] runtime;

  MosaicBatch(MosaicScan scan, Filter[] runtime) {
    this.scan = scan;
    this.runtime = runtime;
  }

  /** The planner's answer: first what all tasks have in common, then what each of them reads. */
  public InputPartition[] planInputPartitions() {
    byte[][] parts = (runtime.length == 0 ? scan.plan() : scan.plan(runtime)).parts;
    InputPartition[] partitions = new InputPartition[parts.length - 1];
    Broadcast filtered = runtime.length == 0 || partitions.length == 0 ? null
        : SparkContext.getOrCreate().broadcast(parts[0], ClassTag$.MODULE$.apply(byte[].class));
    for (int place = 1; place < parts.length; place++)
      partitions[place - 1] = new MosaicPartition(parts[place], filtered);
    return partitions;
  }

  public PartitionReaderFactory createReaderFactory() {
    PythonFunction python = Planner.python(new byte[0]);
    return new ColumnarReaderFactory(python.pythonExec(), Worker.environment(python), scan.plan().parts[0], scan.required);
  }

  public boolean equals(Object other) {
    return other instanceof MosaicBatch && scan.equals(((MosaicBatch) other).scan)
        && Arrays.equals(runtime, ((MosaicBatch) other).runtime);
  }

  public int hashCode() {
    return scan.hashCode();
  }
}
