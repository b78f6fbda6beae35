package smalti.spark.jvm;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A figure of one task, or of the driver. */
final class TaskMetric implements CustomTaskMetric {
  private final String name;
  private final long value;

  TaskMetric(String name, long value) {
    this.name = name;
    this.value = value;
  }

  public String name() {
    return name;
  }

  public long value() {
    return value;
  }

  /** All figures that Spark adds up, in the order in which Python tells them. */
  static CustomMetric[] all() {
    return new CustomMetric[] {new SumMetric("files", "Mosaic files read"), new SumMetric("row_groups", "row groups read"),
      new SumMetric("skipped", "row groups skipped"), new BytesMetric("bytes", "bytes read from Mosaic files"),
      new SumMetric("milliseconds", "milliseconds in Python")};
  }

  /** The figures of a task so far: a long number for each of all(). */
  static CustomTaskMetric[] read(Worker worker) throws IOException {
    CustomMetric[] all = all();
    ByteBuffer numbers = ByteBuffer.wrap(worker.readBytes(8 * all.length));
    CustomTaskMetric[] found = new CustomTaskMetric[all.length];
    for (int place = 0; place < all.length; place++) found[place] = new TaskMetric(all[place].name(), numbers.getLong());
    return found;
  }
}
