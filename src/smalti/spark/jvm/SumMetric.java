package smalti.spark.jvm;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A figure in the SQL tab, the sum over all tasks; and the value that it has in one task, or on the driver. */
public class SumMetric extends CustomSumMetric implements CustomTaskMetric {
  private final String name;
  private final String description;
  private final long value;

  SumMetric(String name, String description, long value) {
    this.name = name;
    this.description = description;
    this.value = value;
  }

  /** Spark makes another one by the name of its class, which only has to add. */
  public SumMetric() {
    this("", "", 0L);
  }

  public String name() {
    return name;
  }

  public String description() {
    return description;
  }

  public long value() {
    return value;
  }

  /** All figures, in the order in which Python tells them. */
  static CustomMetric[] all() {
    return new CustomMetric[] {new SumMetric("files", "Mosaic files read", 0L), new SumMetric("row_groups", "row groups read", 0L),
      new SumMetric("skipped", "row groups skipped", 0L), new BytesMetric("bytes", "bytes read from Mosaic files"),
      new SumMetric("milliseconds", "milliseconds in Python", 0L)};
  }

  /** The figures of a task so far: a long number for each of all(). */
  static CustomTaskMetric[] read(Worker worker) throws IOException {
    CustomMetric[] all = all();
    ByteBuffer numbers = ByteBuffer.wrap(worker.readBytes(8 * all.length));
    CustomTaskMetric[] found = new CustomTaskMetric[all.length];
    for (int index = 0; index < all.length; index++) found[index] = new SumMetric(all[index].name(), "", numbers.getLong());
    return found;
  }
}
