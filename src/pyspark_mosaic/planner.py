"""The planner under a name that Spark starts: its daemon forks only for modules called `pyspark*`."""

from smalti.spark.planner import main

if __name__ == "__main__":
    from pyspark.worker_util import get_sock_file_to_executor

    with get_sock_file_to_executor() as sock_file:
        main(sock_file, sock_file)
