package smalti.spark.jvm;

/** A sum that is shown as bytes. */
public class BytesMetric extends SumMetric {
  BytesMetric(String name, String description) {
    super(name, description, 0L);
  }

  public BytesMetric() {}

  public String aggregateTaskMetrics(long[] values) {
    long sum = 0L;
    for (long value : values) sum += value;
    return org.apache.spark.util.Utils.bytesToString(sum);
  }
}
