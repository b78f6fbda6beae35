package smalti.spark.jvm;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** In the SQL tab: the time that Python workers took for reading and decoding. Spark makes one by the name of its class. */
public class PythonMillisMetric extends CustomSumMetric {
  public String name() {
    return "milliseconds";
  }

  public String description() {
    return "milliseconds in Python";
  }
}
