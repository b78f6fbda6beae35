package smalti.spark.jvm;

import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;

/**
 * smalti's Python source, as Spark's own machinery for writes and streams takes it.
 *
 * Spark would look for Python sources in all installed packages, in a process of its own. Ours is known by its name.
 */
public class PythonSource extends PythonDataSourceV2 {
  /** The class smalti.spark.source.MosaicDataSource, pickled by its name: protocol 2, one global, stop. */
  private static final String PICKLED = "\u0080\u0002csmalti.spark.source\nMosaicDataSource\n.";
  private UserDefinedPythonDataSource known;

  public PythonSource() {
    setShortName(MosaicSource.FORMAT);
  }

  public UserDefinedPythonDataSource source() {
    if (known == null) known = of(PICKLED.getBytes(java.nio.charset.StandardCharsets.ISO_8859_1));
    return known;
  }

  static UserDefinedPythonDataSource of(byte[] pickled) {
    return new UserDefinedPythonDataSource(Planner.python(pickled));
  }
}
