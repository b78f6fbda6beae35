package smalti.spark.jvm;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** In the SQL tab: the row groups that tasks have read. Spark makes one by the name of its class. */
public class RowGroupsMetric extends CustomSumMetric {
  public String name() {
    return "row_groups";
  }

  public String description() {
    return "row groups read";
  }
}
