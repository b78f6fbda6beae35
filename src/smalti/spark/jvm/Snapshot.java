package smalti.spark.jvm;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The files of a table, listed when they are first asked for. All scans of a DataFrame read these files, whatever is
 * written meanwhile. The planner's process keeps what is known of them. A pickled copy is here, for a process that does not
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

  final CaseInsensitiveStringMap given;
  private final boolean hasSchema;
  private Map<String, String> session;
  private Planner.Answer facts;

  /** If there is a schema, it is not derived from the files, and the table may be empty. */
  Snapshot(CaseInsensitiveStringMap given, boolean hasSchema) {
    this.given = given;
    this.hasSchema = hasSchema;
  }

  synchronized Planner.Answer facts() {
    if (facts == null) {
      session = Options.session();
      facts = Planner.ask("open",
          Planner.details("options", given.asCaseSensitiveMap(), "session", session, "given", hasSchema));
    }
    return facts;
  }

  /** What messages call the table. */
  String name() {
    return MosaicSource.FORMAT + " " + Options.shown((String) given.get("path"));
  }

  /** Ask about these files. */
  Planner.Answer ask(String question, Map<String, Object> details) {
    details.put("table", facts().text("table"));
    return Planner.ask(question, details, facts().parts);
  }

  /** The columns that were derived from the files, partition columns last. */
  StructType schema() {
    String written = facts().text("schema");
    StructType known = (StructType) PARSED.get(written);
    if (known == null) {
      known = (StructType) DataType.fromJson(written);
      PARSED.put(written, known);
    }
    return known;
  }

  /** The columns that a fact names. */
  Set<String> names(String fact) {
    return new HashSet<String>(Arrays.asList(facts().names(fact)));
  }

  /** The same files, read by the same options, which a query may give for each of its scans. */
  public boolean equals(Object other) {
    if (this == other || !(other instanceof Snapshot)) return this == other;
    Snapshot snapshot = (Snapshot) other;
    return given.equals(snapshot.given) && sameFiles(snapshot) && session.equals(snapshot.session);
  }

  synchronized boolean isListed() {
    return facts != null;
  }

  boolean sameFiles(Snapshot other) {
    return this == other || facts().text("digest").equals(other.facts().text("digest"));
  }

  public int hashCode() {
    return facts().text("digest").hashCode();
  }
}
