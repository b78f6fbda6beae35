package smalti.spark.jvm;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonWorker;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A Python process that runs pyspark_mosaic.worker, and the channel to it.
 *
 * Spark starts one daemon for a worker module, which forks the workers and keeps those that have finished. The module is
 * ours, so that a worker imports what reads Mosaic and nothing else, and sends Arrow as it is.
 */
public final class Worker implements ReadableByteChannel {
  /** Spark's daemon imports modules by a name that starts like this, and for any other name its own worker. */
  private static final String MODULE = "pyspark_mosaic.worker";
  private static final String DAEMON = "pyspark_mosaic.daemon";
  static final byte[] ASK = "ask".getBytes(StandardCharsets.UTF_8);
  static final byte[] READ = "read".getBytes(StandardCharsets.UTF_8);
  private final String python;
  private final scala.collection.immutable.Map environment;
  private final PythonWorker worker;
  private final SocketChannel channel;
  private final ByteBuffer four = ByteBuffer.allocate(4);
  private boolean open = true;

  Worker(String python, scala.collection.immutable.Map environment) throws IOException {
    this.python = python;
    this.environment = environment;
    this.worker = (PythonWorker) SparkEnv.get().createPythonWorker(python, MODULE, DAEMON, environment, true)._1();
    this.channel = worker.channel();
    if (!channel.isBlocking()) {
      worker.selectionKey().cancel();
      worker.selector().selectNow();
      channel.configureBlocking(true);
    }
  }

  /** Start the daemon while the session is busy with itself, so that the first query finds a worker. */
  public static void prepare() {
    Thread thread = new Thread("mosaic-prepare") {
      public void run() {
        try {
          PythonFunction python = Planner.python(new byte[0]);
          new Worker(python.pythonExec(), environment(python)).release();
        } catch (Throwable error) {
          // The first query will say what is wrong.
        }
      }
    };
    thread.setDaemon(true);
    thread.start();
  }

  /** The environment of this application's Python processes. Those of one environment share a daemon. */
  static scala.collection.immutable.Map environment(PythonFunction python) {
    Map<String, String> all = new TreeMap<String, String>(python.envVars());
    all.put("SPARK_REUSE_WORKER", "1");
    all.put("OPENBLAS_NUM_THREADS", "1"); // numpy comes with Arrow, and would start threads before a fork
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(all));
  }

  /** Send parts, each after its length. */
  void send(byte[][] parts) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    for (byte[] part : parts) {
      out.writeInt(part.length);
      out.write(part);
    }
    ByteBuffer buffer = ByteBuffer.wrap(bytes.toByteArray());
    while (buffer.hasRemaining()) channel.write(buffer);
  }

  public int read(ByteBuffer target) throws IOException {
    return channel.read(target);
  }

  int readInt() throws IOException {
    four.clear();
    fill(four);
    return four.getInt(0);
  }

  byte[] readBytes(int length) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(length);
    fill(bytes);
    return bytes.array();
  }

  private void fill(ByteBuffer target) throws IOException {
    while (target.hasRemaining())
      if (channel.read(target) < 0) throw new EOFException("a Python worker has ended before it had answered");
  }

  /** Hand the process back, for the next task. */
  void release() {
    if (!open) return;
    open = false;
    SparkEnv.get().releasePythonWorker(python, MODULE, DAEMON, environment, worker);
  }

  /** End the process, which may be in the middle of something. */
  public void close() {
    if (!open) return;
    open = false;
    SparkEnv.get().destroyPythonWorker(python, MODULE, DAEMON, environment, worker);
  }

  public boolean isOpen() {
    return open;
  }
}
