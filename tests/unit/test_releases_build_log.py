from dflash_kit.releases.build_log import TOTAL, BuildLog, read

LOG = """\
#1 [internal] load build definition from Dockerfile
#1 DONE 0.1s
#2 [base 1/2] FROM example
#2 resolve example 0.3s done
#2 DONE 0.3s
#3 [system 2/4] RUN apt-get
#3 0.512 Get:1
#3 DONE 20.5s
#2 [base 1/2] FROM example
#2 DONE 1.0s
#4 [deps 1/3] COPY
#4 CACHED
"""


def test_a_whole_log() -> None:
    assert read(LOG + TOTAL.format(21.96) + "\n") == BuildLog(22.0, 21.6, 4, 1)


def test_a_log_of_another_hand_has_no_whole_time() -> None:
    assert read(LOG) == BuildLog(None, 21.6, 4, 1)
    assert read("") == BuildLog(None, 0.0, 0, 0)


def test_of_two_builds_in_one_log_the_last_counts() -> None:
    assert read(TOTAL.format(5) + "\n" + LOG + TOTAL.format(6) + "\n").seconds == 6
