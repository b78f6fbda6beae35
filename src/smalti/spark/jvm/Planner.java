package smalti.spark.jvm;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonUtils$;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.unsafe.Platform;

/** Questions to smalti/spark/driver/questions.py: JSON and byte strings go there, and come back. */
final class Planner {
  static final ObjectMapper JSON = new ObjectMapper();
  /** The questions that change a table. Each is asked once, in a process that was just taken from Spark. */
  private static final Set<String> CHANGES = Set.of("commit", "abort", "truncate");
  /** Processes that were asked before. Queries that are planned at the same moment ask several. */
  private static final ArrayDeque<Worker> KEPT = new ArrayDeque<Worker>();
  private static final int MOST_KEPT = 2;
  private static PythonFunction python;
  private static SparkContext context;

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
      return (String[]) all.toArray(new String[0]);
    }
  }

  /** Details of a question: names, each before its value. */
  static Map<String, Object> details(Object... namesAndValues) {
    Map<String, Object> details = new HashMap<String, Object>();
    for (int index = 0; index < namesAndValues.length; index += 2)
      details.put((String) namesAndValues[index], namesAndValues[index + 1]);
    return details;
  }

  /** Ask a question that needs no bytes. */
  static Answer ask(String question, Map<String, Object> details) {
    return ask(question, details, new byte[0][]);
  }

  /** Ask, and wait for the answer. An error that Python reports is thrown as an AnalysisException. */
  static Answer ask(String question, Map<String, Object> details, byte[][] bytes) {
    details.put("question", question);
    Answer answer = null;
    try {
      answer = ask(question, JSON.writeValueAsString(details).getBytes(StandardCharsets.UTF_8), bytes);
    } catch (IOException error) {
      Platform.throwException(error);
    }
    if (answer.has("missing"))
      Platform.throwException(QueryCompilationErrors.dataPathNotExistError(answer.text("missing")));
    if (answer.has("error"))
      Platform.throwException(QueryCompilationErrors.pythonDataSourceError(question, "table", answer.text("error")));
    return answer;
  }

  /**
   * Ask the process that was asked last, which may know the table that a question is about: the bytes are sent only if it
   * does not. If it has ended, another one is asked, unless the question changes something: at last a new one, because all
   * that were kept may have ended.
   */
  private static Answer ask(String question, byte[] request, byte[][] bytes) throws IOException {
    boolean changes = CHANGES.contains(question);
    for (int left = changes ? 0 : MOST_KEPT + 1;; left--) {
      Worker kept = changes ? null : kept();
      Worker worker = kept == null ? new Worker() : kept;
      try {
        Answer answer = exchange(worker, question, request, kept == null ? bytes : new byte[0][]);
        if (answer.has("unknown")) answer = exchange(worker, question, request, bytes);
        if (changes) worker.release();
        else keep(worker);
        return answer;
      } catch (IOException error) {
        worker.close();
        if (left == 0) throw error;
      }
    }
  }

  private static Worker kept() {
    synchronized (KEPT) {
      return (Worker) KEPT.pollLast();
    }
  }

  /** Keep a process for the next question. Spark's own pool would give it to a task. */
  private static void keep(Worker worker) {
    synchronized (KEPT) {
      if (KEPT.size() < MOST_KEPT) KEPT.addLast(worker);
      else worker.release();
    }
  }

  private static Answer exchange(Worker worker, String question, byte[] request, byte[][] bytes) throws IOException {
    byte[][] all = new byte[bytes.length + 2][];
    all[0] = Worker.ASK;
    all[1] = request;
    System.arraycopy(bytes, 0, all, 2, bytes.length);
    worker.send(question, all);
    Map<String, Object> facts = (Map<String, Object>) JSON.readValue(worker.readBytes(worker.readInt()), Map.class);
    byte[][] parts = new byte[worker.readInt()][];
    for (int part = 0; part < parts.length; part++) parts[part] = worker.readBytes(worker.readInt());
    return new Answer(facts, parts);
  }

  /** How Python is run in this application. Spark runs Python to ask for its version for this, so it is asked once. */
  static synchronized PythonFunction python() {
    if (python == null || SparkContext.getOrCreate() != context) {
      context = SparkContext.getOrCreate();
      python = PythonUtils$.MODULE$.createPythonFunction(new byte[0]);
    }
    return python;
  }
}
