package smalti.spark.jvm;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** In the SQL tab: the files that tasks have opened. Spark makes one by the name of its class. */
public class FilesMetric extends CustomSumMetric {
  public String name() {
    return "files";
  }

  public String description() {
    return "Mosaic files read";
  }
}
