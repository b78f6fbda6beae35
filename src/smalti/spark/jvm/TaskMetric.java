package smalti.spark.jvm;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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

  /** All figures that Spark adds up. */
  static CustomMetric[] all() {
    return new CustomMetric[] {new FilesMetric(), new RowGroupsMetric(), new SkippedMetric(), new BytesMetric(), new PythonMillisMetric()};
  }

  /** The figures of a task so far: a long number for each of all(). */
  static CustomTaskMetric[] read(Worker worker) throws IOException {
    CustomMetric[] all = all();
    ByteBuffer numbers = ByteBuffer.wrap(worker.readBytes(8 * all.length));
    CustomTaskMetric[] found = new CustomTaskMetric[all.length];
    for (int place = 0; place < all.length; place++) found[place] = new TaskMetric(all[place].name(), numbers.getLong());
    return found;
  }

  /** The figures of a report of Python's. */
  static CustomTaskMetric[] of(Map<String, Object> report) {
    List<CustomTaskMetric> found = new ArrayList<CustomTaskMetric>();
    for (CustomMetric metric : all()) {
      Object value = report.get(metric.name());
      if (value instanceof Number) found.add(new TaskMetric(metric.name(), ((Number) value).longValue()));
    }
    return (CustomTaskMetric[]) found.toArray(new CustomTaskMetric[found.size()]);
  }
}
