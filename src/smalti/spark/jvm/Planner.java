package smalti.spark.jvm;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonUtils$;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.unsafe.Platform;

/** Questions to smalti/spark/driver/questions.py: JSON and bytes go there, JSON and byte strings come back. */
final class Planner {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, PythonFunction> FUNCTIONS = new HashMap<String, PythonFunction>();

  private Planner() {}

  /** What the planner has answered. */
  public static class Answer {
    private final Map<String, Object> facts;
    final byte[][] parts;

    Answer(Map<String, Object> facts, byte[][] parts) {
      this.facts = facts;
      this.parts = parts;
    }

    boolean has(String fact) {
      return facts.get(fact) != null;
    }

    Object get(String fact) {
      return facts.get(fact);
    }

    String text(String fact) {
      return String.valueOf(facts.get(fact));
    }

    long number(String fact) {
      return ((Number) facts.get(fact)).longValue();
    }

    String[] names(String fact) {
      List<Object> all = (List<Object>) facts.get(fact);
      return (String[]) all.toArray(new String[all.size()]);
    }
  }

  /** Ask, and wait for the answer. An error that the planner reports is thrown as an AnalysisException. */
  static Answer ask(String question, Map<String, Object> details, byte[] state) {
    Map<String, Object> request = new HashMap<String, Object>(details);
    request.put("question", question);
    Answer answer = null;
    try {
      answer = ask(JSON.writeValueAsString(request).getBytes(StandardCharsets.UTF_8), state);
    } catch (IOException error) {
      Platform.throwException(error);
    }
    if (answer.has("missing"))
      Platform.throwException(QueryCompilationErrors.dataPathNotExistError(answer.text("missing")));
    if (answer.has("error"))
      Platform.throwException(QueryCompilationErrors.pythonDataSourceError("plan", "read", answer.text("error")));
    return answer;
  }

  /**
   * A Python function, given as what a worker of Spark's unpickles, in the environment of this application.
   *
   * Spark runs Python to ask for its version each time it makes one, so those that were made are kept.
   */
  static PythonFunction python(byte[] pickled) {
    String key = new String(pickled, StandardCharsets.ISO_8859_1);
    synchronized (FUNCTIONS) {
      PythonFunction known = (PythonFunction) FUNCTIONS.get(key);
      if (known == null) {
        known = PythonUtils$.MODULE$.createPythonFunction(pickled);
        FUNCTIONS.put(key, known);
      }
      return known;
    }
  }

  private static Answer ask(byte[] request, byte[] state) throws IOException {
    PythonFunction python = python(new byte[0]);
    Worker worker = new Worker(python.pythonExec(), Worker.environment(python));
    try {
      worker.send(new byte[][] {Worker.ASK, request, state});
      Map<String, Object> facts = (Map<String, Object>) JSON.readValue(worker.readBytes(worker.readInt()), Map.class);
      byte[][] parts = new byte[worker.readInt()][];
      for (int part = 0; part < parts.length; part++) parts[part] = worker.readBytes(worker.readInt());
      worker.release();
      return new Answer(facts, parts);
    } finally {
      worker.close(); // does nothing to a process that was released
    }
  }
}
