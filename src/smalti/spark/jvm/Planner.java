package smalti.spark.jvm;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import net.razorvine.pickle.Pickler;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonUtils$;
import org.apache.spark.api.python.PythonWorkerUtils;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.sql.execution.python.PythonPlannerRunner;
import org.apache.spark.unsafe.Platform;

/**
 * One question to smalti/spark/planner.py: JSON and bytes go there, JSON and byte strings come back.
 *
 * All questions go to the same Python module, so Spark starts one process for all of them and keeps it.
 */
public class Planner extends PythonPlannerRunner {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final int PYTHON_EXCEPTION = -2;
  private final String request;
  private final byte[] state;

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

  private Planner(PythonFunction function, String request, byte[] state) {
    super(function);
    this.request = request;
    this.state = state;
  }

  /** Ask, and wait for the answer. An error that the planner reports is thrown as an AnalysisException. */
  static Answer ask(String question, Map<String, Object> details, byte[] state) {
    Map<String, Object> request = new HashMap<String, Object>(details);
    request.put("question", question);
    Answer answer = null;
    try {
      Planner planner = new Planner(python(new byte[0]), JSON.writeValueAsString(request), state);
      answer = (Answer) planner.runInPython(planner.runInPython$default$1());
    } catch (IOException error) {
      Platform.throwException(error);
    }
    if (answer.has("missing"))
      Platform.throwException(QueryCompilationErrors.dataPathNotExistError(answer.text("missing")));
    if (answer.has("error"))
      Platform.throwException(QueryCompilationErrors.pythonDataSourceError("plan", "read", answer.text("error")));
    return answer;
  }

  /** A Python function, given as what a worker of Spark's unpickles, in the environment of this application. */
  static PythonFunction python(byte[] pickled) {
    return PythonUtils$.MODULE$.createPythonFunction(pickled);
  }

  public String workerModule() {
    return "pyspark_mosaic.planner";
  }

  public void writeToPython(DataOutputStream out, Pickler pickler) {
    try {
      PythonWorkerUtils.writeUTF(request, out);
      PythonWorkerUtils.writeBytes(state, out);
    } catch (Exception error) {
      Platform.throwException(error);
    }
  }

  public Object receiveFromPython(DataInputStream in) {
    Answer answer = null;
    try {
      int length = in.readInt();
      if (length == PYTHON_EXCEPTION)
        Platform.throwException(QueryCompilationErrors.pythonDataSourceError("plan", "read", PythonWorkerUtils.readUTF(in)));
      Map<String, Object> facts = (Map<String, Object>) JSON.readValue(PythonWorkerUtils.readBytes(length, in), Map.class);
      byte[][] parts = new byte[in.readInt()][];
      for (int part = 0; part < parts.length; part++) parts[part] = PythonWorkerUtils.readBytes(in);
      answer = new Answer(facts, parts);
    } catch (IOException error) {
      Platform.throwException(error);
    }
    return answer;
  }
}
