package smalti.spark.jvm;

import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.connector.read.InputPartition;

/** What one task reads, pickled; and the scan, if filters that have come at run time made it another than the factory's. */
final class MosaicPartition implements InputPartition {
  final byte[] split;
  private final Broadcast scan;

  MosaicPartition(byte[] split, Broadcast scan) {
    this.split = split;
    this.scan = scan;
  }

  byte[] scan(byte[] ofFactory) {
    return scan == null ? ofFactory : (byte[]) scan.value();
  }
}
