package smalti.spark.jvm;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** In the SQL tab: the row groups that statistics or partitions have ruled out. Spark makes one by the name of its class. */
public class SkippedMetric extends CustomSumMetric {
  public String name() {
    return "skipped";
  }

  public String description() {
    return "row groups skipped";
  }
}
