package smalti.spark.jvm;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkException;
import org.apache.spark.api.python.PythonWorker;
import org.apache.spark.unsafe.Platform;

/**
 * A Python process that runs pyspark_mosaic.worker, and the channel to it.
 *
 * Spark starts one daemon for a worker module, which forks the workers and keeps those that have finished. The module is
 * ours, so that a worker imports what reads Mosaic and nothing else, and sends Arrow as it is.
 */
public final class Worker implements ByteChannel {
  /** Spark's daemon imports only modules whose names start with "pyspark", and for any other name its own worker. */
  private static final String MODULE = "pyspark_mosaic.worker";
  private static final String DAEMON = "pyspark_mosaic.daemon";
  private static final String ENDED = "a Python worker has ended before it had answered";
  private static final int OUTGOING_BYTES = 1 << 20;
  static final byte[] ASK = "ask".getBytes(StandardCharsets.UTF_8);
  static final byte[] READ = "read".getBytes(StandardCharsets.UTF_8);
  static final byte[] WRITE = "write".getBytes(StandardCharsets.UTF_8);
  private static final Map<String, Long> REQUESTS = new TreeMap<String, Long>();
  private final String python;
  private final scala.collection.immutable.Map environment;
  private final PythonWorker worker;
  private final SocketChannel channel;
  private final ByteBuffer intBytes = ByteBuffer.allocate(4);
  /** What is on its way to the process. Arrow writes each buffer of each column by itself, and most of them are small. */
  private ByteBuffer outgoing;
  private boolean open = true;

  /** A process on the driver. */
  Worker() throws IOException {
    this(Planner.python().pythonExec(), environment());
  }

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
          new Worker().release();
        } catch (Throwable error) {
          // The first query will say what is wrong.
        }
      }
    };
    thread.setDaemon(true);
    thread.start();
  }

  /** The environment of this application's Python processes. Those of one environment share a daemon. */
  static scala.collection.immutable.Map environment() {
    Map<String, String> all = new TreeMap<String, String>(Planner.python().envVars());
    all.put("SPARK_REUSE_WORKER", "1");
    all.put("OPENBLAS_NUM_THREADS", "1"); // numpy comes with Arrow, and would start threads before a fork
    return Options.toScala(all);
  }

  /** How often each kind of request was sent, as JSON; the tests compare it with docs/architecture.md. */
  public static String requests() {
    synchronized (REQUESTS) {
      return Options.json(REQUESTS);
    }
  }

  /** Send the parts of a request, each after its length, after their number. `kind` is for `requests`. */
  void send(String kind, byte[][] parts) throws IOException {
    synchronized (REQUESTS) {
      Long before = (Long) REQUESTS.get(kind);
      REQUESTS.put(kind, Long.valueOf(before == null ? 1L : before.longValue() + 1L));
    }
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeInt(parts.length);
    for (byte[] part : parts) {
      out.writeInt(part.length);
      out.write(part);
    }
    ByteBuffer buffer = ByteBuffer.wrap(bytes.toByteArray());
    while (buffer.hasRemaining()) channel.write(buffer);
  }

  public int write(ByteBuffer source) throws IOException {
    int length = source.remaining();
    if (outgoing == null) outgoing = ByteBuffer.allocateDirect(OUTGOING_BYTES);
    if (length > outgoing.remaining()) flush();
    if (length <= outgoing.capacity()) outgoing.put(source);
    while (source.hasRemaining()) channel.write(source);
    return length;
  }

  void flush() throws IOException {
    outgoing.flip();
    while (outgoing.hasRemaining()) channel.write(outgoing);
    outgoing.clear();
  }

  public int read(ByteBuffer target) throws IOException {
    return channel.read(target);
  }

  int readInt() throws IOException {
    fill(intBytes);
    intBytes.clear();
    return intBytes.getInt(0);
  }

  byte[] readBytes(int length) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(length);
    fill(bytes);
    return bytes.array();
  }

  private void fill(ByteBuffer target) throws IOException {
    while (target.hasRemaining())
      if (channel.read(target) < 0) throw new EOFException(ENDED);
  }

  /** Take the error that the process reports at the end of a request, if there is one, and throw it. */
  void report() throws IOException {
    byte[] error = readBytes(readInt());
    if (error.length > 0) Platform.throwException(new SparkException(new String(error, StandardCharsets.UTF_8)));
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
    try {
      SparkEnv.get().destroyPythonWorker(python, MODULE, DAEMON, environment, worker);
    } catch (Exception error) {
      // The daemon, which would end the process, has ended itself, or the session has stopped.
    }
  }

  public boolean isOpen() {
    return open;
  }
}
