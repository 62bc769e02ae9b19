#include "base/text/exception_text.h"

#include <gtest/gtest.h>

#include "base/wire/failure.h"

namespace muster {
namespace {

constexpr char kHandled[] =
    "ERROR:root:retrying\n"
    "Traceback (most recent call last):\n"
    "  File \"t.py\", line 3, in load\n"
    "    return connect()\n"
    "           ^^^^^^^^^\n"
    "ConnectionResetError: [Errno 104] Connection reset by peer";
constexpr char kNccl[] =
    "[rank1]:   File \"torch/distributed/c10d_logger.py\", line 83, in wrapper\n"
    "[rank1]:     return func(*args, **kwargs)\n"
    "[rank1]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, remote process exited or there "
    "was a "
    "network error, NCCL version 2.27.5\n"
    "[rank1]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
    "prematurely.\n"
    "[rank1]: Last error:\n"
    "[rank1]: socketPollConnect: connect returned Connection refused\n"
    "[rank1]:[W1127 03:00:35 ProcessGroupNCCL.cpp:1553] Warning: destroy_process_group() was not called";

TEST(FinalMessage, IsTheLastExceptions) {
  const std::string chain =
      std::string(kHandled) +
      "\n\nDuring handling of the above exception, another exception occurred:\n\n"
      "Traceback (most recent call last):\n  File \"t.py\", line 9, in <module>\nValueError: bad data";
  EXPECT_EQ(FinalMessage(kHandled), "ConnectionResetError: [Errno 104] Connection reset by peer");
  EXPECT_EQ(FinalMessage(chain), "ValueError: bad data");
}

TEST(FinalMessage, IsTheLastLineOfAProgramThatWentOn) {
  EXPECT_EQ(FinalMessage(std::string(kHandled) + "\ngiving up\n"), "giving up");
  EXPECT_EQ(FinalMessage("t.py:5: UserWarning: old\n  warnings.warn()"), "t.py:5: UserWarning: old");
  EXPECT_EQ(FinalMessage(""), "");
}

TEST(FinalMessage, OfTorchHasAllItsLines) {
  const std::string message = FinalMessage(kNccl);
  EXPECT_EQ(message.substr(0, 35), "torch.distributed.DistBackendError:");
  EXPECT_NE(message.find("ncclRemoteError"), std::string::npos);
  EXPECT_EQ(message.find("destroy_process_group"), std::string::npos) << "it is no part of the exception";
}

TEST(FinalMessage, OfCppIsAllThatItSays) {
  const std::string said =
      "terminate called after throwing an instance of 'c10::Error'\n  what():  bad\nframe #0: f";
  EXPECT_EQ(FinalMessage("Connection reset by peer\n" + said), said);
}

TEST(EndsWithException, OnlyIfNothingFollows) {
  EXPECT_TRUE(EndsWithException(kHandled));
  EXPECT_TRUE(EndsWithException(std::string(kHandled) + "\n\n"));
  EXPECT_TRUE(EndsWithException("  File \"t.py\", line 3\n    f()\nKeyError: 1")) << "its beginning is missing";
  EXPECT_FALSE(EndsWithException(std::string(kHandled) + "\nstep 5"));
  EXPECT_FALSE(EndsWithException("settings:\n  File \"x\"\n  a: 1\ndone"));
  EXPECT_FALSE(EndsWithException("ValueError: bad data"));
  EXPECT_FALSE(EndsWithException(""));
}

TEST(EndsWithException, TorchsHookPrintsOnlyUncaughtOnes) {
  EXPECT_TRUE(EndsWithException(kNccl));
  EXPECT_FALSE(EndsWithException("[rank1]: step 5\n[rank1]: step 6"));
}

v1::Failure Exited(const std::string& last_output) {
  v1::Failure failure;
  failure.set_exit_code(1);
  failure.set_last_output(last_output);
  return failure;
}

TEST(SoundsLikeAnEcho, OnlyByItsFinalException) {
  EXPECT_TRUE(SoundsLikeAnEcho(Exited(kHandled)));
  EXPECT_TRUE(SoundsLikeAnEcho(Exited(kNccl)));
  EXPECT_FALSE(SoundsLikeAnEcho(Exited(std::string(kHandled) + "\nKeyError: 'labels'")));
  v1::Failure recorded = Exited("");
  recorded.set_error_text("ValueError: bad data");
  recorded.set_callstack(std::string(kHandled) +
                         "\n\nDuring handling of the above exception, another exception occurred:\n\n"
                         "Traceback (most recent call last):\n  File \"t.py\", line 9\nValueError: bad data\n");
  EXPECT_FALSE(SoundsLikeAnEcho(recorded));
  recorded.set_error_text("DistNetworkError: Failed to recv, got 0 bytes");
  EXPECT_TRUE(SoundsLikeAnEcho(recorded));
}

}  // namespace
}  // namespace muster
