package smalti.spark.jvm;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** A figure in the SQL tab: the sum over all tasks. */
public class SumMetric extends CustomSumMetric {
  private final String name;
  private final String description;

  SumMetric(String name, String description) {
    this.name = name;
    this.description = description;
  }

  /** Spark makes another one by the name of its class, which only has to add. */
  public SumMetric() {
    this("", "");
  }

  public String name() {
    return name;
  }

  public String description() {
    return description;
  }
}
