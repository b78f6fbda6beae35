package smalti.spark.jvm;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** In the SQL tab: what was read of the files. Spark makes one by the name of its class. */
public class BytesMetric extends CustomSumMetric {
  public String name() {
    return "bytes";
  }

  public String description() {
    return "bytes read from Mosaic files";
  }

  public String aggregateTaskMetrics(long[] values) {
    long sum = 0L;
    for (long value : values) sum += value;
    return org.apache.spark.util.Utils.bytesToString(sum);
  }
}
