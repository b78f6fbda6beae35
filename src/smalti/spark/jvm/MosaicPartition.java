package smalti.spark.jvm;

import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.connector.read.InputPartition;
import scala.reflect.ClassTag$;

/** What one task reads, pickled; and the scan, if the factory of readers does not have it. */
final class MosaicPartition implements InputPartition {
  final byte[] split;
  private final Broadcast scan;

  MosaicPartition(byte[] split, Broadcast scan) {
    this.split = split;
    this.scan = scan;
  }

  /** The tasks of an answer of the planner's, which has the scan first. `bringScan` says whether they bring it along. */
  static InputPartition[] of(byte[][] parts, boolean bringScan) {
    InputPartition[] partitions = new InputPartition[parts.length - 1];
    Broadcast scan = bringScan && partitions.length > 0
        ? SparkContext.getOrCreate().broadcast(parts[0], ClassTag$.MODULE$.apply(byte[].class)) : null;
    for (int place = 1; place < parts.length; place++) partitions[place - 1] = new MosaicPartition(parts[place], scan);
    return partitions;
  }

  byte[] scan(byte[] ofFactory) {
    return scan == null ? ofFactory : (byte[]) scan.value();
  }
}
