package smalti.spark.jvm;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The files of a table, as they were listed once. All scans of a DataFrame read these, and the planner's figures are
 * of these. The planner's process keeps what is known of the files. A pickled copy is here, for a process that does not
 * know the table; only Python looks into it.
 */
final class Snapshot {
  /** Schemas that were parsed last: a table that is loaded again has the same text, and 10,000 columns take long. */
  private static final Map<String, StructType> PARSED =
      Collections.synchronizedMap(new LinkedHashMap<String, StructType>(8, 0.75f, true) {
        protected boolean removeEldestEntry(Map.Entry<String, StructType> eldest) {
          return size() > 4;
        }
      });

  final CaseInsensitiveStringMap options;
  final Planner.Answer facts;

  private Snapshot(CaseInsensitiveStringMap options, Planner.Answer facts) {
    this.options = options;
    this.facts = facts;
  }

  /** List the table. A schema that is given is not derived from the files, and the table may be empty then. */
  static Snapshot take(CaseInsensitiveStringMap given, StructType schema) {
    CaseInsensitiveStringMap options = Options.withSession(given.asCaseSensitiveMap());
    Map<String, Object> details = new HashMap<String, Object>();
    details.put("options", options.asCaseSensitiveMap());
    if (schema != null) details.put("given", Boolean.TRUE);
    return new Snapshot(options, Planner.ask("open", details));
  }

  /** Ask about these files. */
  Planner.Answer ask(String question, Map<String, Object> details) {
    details.put("table", facts.text("table"));
    return Planner.ask(question, details, facts.parts);
  }

  /** The columns that were derived from the files, partition columns last. */
  StructType schema() {
    String written = facts.text("schema");
    StructType known = (StructType) PARSED.get(written);
    if (known == null) {
      known = (StructType) DataType.fromJson(written);
      PARSED.put(written, known);
    }
    return known;
  }

  String[] partitions() {
    return facts.names("partitions");
  }

  /** The columns by which a filter can rule out files or row groups. */
  Set<String> filterable() {
    return new HashSet<String>(Arrays.asList(facts.names("filterable")));
  }

  /** The same files, read by the same options, which a query may give for each of its scans. */
  public boolean equals(Object other) {
    return other instanceof Snapshot && options.equals(((Snapshot) other).options)
        && facts.text("digest").equals(((Snapshot) other).facts.text("digest"));
  }

  public int hashCode() {
    return facts.text("digest").hashCode();
  }
}
