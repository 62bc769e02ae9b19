// The binary as a shell sees it: exit codes, and the stream of each text. Needs no Python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Ran {
  int exit_code = -1;
  std::string output;
};

// words: as written in a shell; captures standard output only, unless they redirect standard error to it.
Ran Muster(const std::string& words, const std::string& variables = "") {
  const std::string command = "env -u CLUSTER_SPEC " + variables + " '" MUSTER_BINARY "' " + words;
  FILE* const pipe = popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  Ran ran;
  std::array<char, 4096> buffer;
  for (size_t size; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    ran.output.append(buffer.data(), size);
  }
  const int status = pclose(pipe);
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

TEST(BinaryTest, HelpGoesToStandardOutput) {
  EXPECT_THAT(Muster("--help").output, HasSubstr("Usage: muster COMMAND"));
  EXPECT_EQ(Muster("run --help").exit_code, 0);
  EXPECT_THAT(Muster("run -h").output, HasSubstr("--nnodes N|MIN:MAX"));
  EXPECT_THAT(Muster("local --help").output, HasSubstr("--nodes N"));
  EXPECT_EQ(Muster("help run").output, Muster("run --help").output);
  EXPECT_EQ(Muster("help --help").output, Muster("--help").output);
  EXPECT_THAT(Muster("coordinator --help").output, HasSubstr("Required."));
  EXPECT_EQ(Muster("version --help").output, Muster("--help").output);
  EXPECT_EQ(Muster("2>/dev/null").exit_code, 64);
  EXPECT_EQ(Muster("2>/dev/null").output, "");
}

TEST(BinaryTest, ANodeOfMusterLocalSaysSo) {
  EXPECT_THAT(Muster("local --nodes 2 --no-python true 2>&1").output,
              AllOf(HasSubstr("node 1 of 2 (muster local), primary 127.0.0.1:"), Not(HasSubstr("vertex"))));
  EXPECT_THAT(Muster("local --nodes 3 --nnodes 2 --no-python true 2>&1").output,
              AllOf(HasSubstr("node 0 of 2 (muster local)"),
                    HasSubstr("place 2 (may be a spare) of a job of 2 (muster local)")));
}

TEST(BinaryTest, CommandLineErrorsAre64EnvironmentErrors65) {
  EXPECT_EQ(
      Muster("dance 2>&1").output,
      "muster: dance: no such command; the commands are run, local, env, hostfile, coordinator, host, health, "
      "status, stacks, events, stop, restart, drain, signal, install, token, version and help\n");
  EXPECT_THAT(Muster("rnu x.py 2>&1").output, HasSubstr("; did you mean muster run?\n"));
  EXPECT_THAT(Muster("train.py 2>&1").output, HasSubstr("; did you mean muster run train.py?\n"));
  EXPECT_THAT(Muster("--standalone x 2>&1").output, HasSubstr("; did you mean muster run --standalone?\n"));
  EXPECT_EQ(Muster("help rnu 2>/dev/null").exit_code, 64);
  EXPECT_EQ(Muster("run --nnodes 0 x 2>&1").output,
            "muster: --nnodes 0: expected N or MIN:MAX, each from 1 to 100000\n");
  EXPECT_EQ(Muster("coordinator --nnodes 2 --listen foo 2>&1").output,
            "muster: --listen foo: expected a port from 0 to 65535 (0: any), an IP address, or HOST:PORT, such as "
            "29400 or node0:29400\n");
  for (const char* words : {"dance", "run", "run --nnodes 0 x", "run --x y", "version now", "local t.py", "agent",
                            "local-node", "local --nodes 2 --lease 0 t.py",
                            "coordinator --nnodes 2 --listen 70000", "coordinator --nnodes 2 --listen foo"}) {
    EXPECT_EQ(Muster(std::string(words) + " 2>/dev/null").exit_code, 64) << words;
  }
  EXPECT_EQ(Muster("run x 2>/dev/null", "MUSTER_NNODES=x").exit_code, 65);
  EXPECT_THAT(Muster("coordinator --nnodes 2 2>&1", "MUSTER_LISTEN=70000").output,
              testing::StartsWith("muster: MUSTER_LISTEN 70000: expected a port"));
  EXPECT_EQ(Muster("coordinator --nnodes 2 2>&1", "MUSTER_LISTEN=70000").exit_code, 65);
  EXPECT_THAT(Muster("-V 2>&1").output, HasSubstr("; did you mean muster --version?\n"));
  EXPECT_EQ(Muster("env 2>/dev/null", "CLUSTER_SPEC='{'").exit_code, 65);
}

TEST(BinaryTest, AWorkersExitCodeIsPassedOn) {
  EXPECT_EQ(Muster("run --no-python true 2>/dev/null").exit_code, 0);
  EXPECT_EQ(Muster("run --no-python sh -c 'exit 7' 2>/dev/null").exit_code, 7);
  EXPECT_EQ(Muster("run --no-python sh -c 'kill -SEGV $$$$' 2>/dev/null").exit_code, 139);
}

TEST(BinaryTest, AJobOfOneNodeNeedsNoTimeToJoin) {
  EXPECT_EQ(Muster("run --join-timeout 100ms --no-python true 2>/dev/null").exit_code, 0);
}

TEST(BinaryTest, ALocalJobSurvivesAnUnwritableOutput) {
  const Ran ran = Muster("local --nodes 2 --no-python sh -c 'echo x; exit 3' 2>&1 >/dev/full");
  EXPECT_EQ(ran.exit_code, 3);
  EXPECT_NE(ran.output.find("bytes of output were lost: No space left on device"), std::string::npos)
      << ran.output;
}

TEST(BinaryTest, AProgramThatCannotBeStartedIs126Or127) {
  EXPECT_EQ(Muster("run --no-python ./no-such-program 2>/dev/null").exit_code, 127);
  EXPECT_EQ(Muster("run --no-python /etc/passwd 2>/dev/null").exit_code, 126);
  EXPECT_EQ(Muster("local --nodes 2 --no-python /etc/passwd 2>/dev/null").exit_code, 126);
}

TEST(BinaryTest, TheScriptGetsItsArgumentsUnchanged) {
  const Ran ran = Muster("run --no-python printf '%s,' --nnodes 3 -- -m '' 'a b' 2>/dev/null");
  EXPECT_EQ(ran.output, "--nnodes,3,--,-m,,a b,");
}

// Static constructors run before main() and open descriptors: none of them may get the number of a closed one.
// Output may go through a pipe of muster's, so only standard input shows exactly what the worker was given.
TEST(BinaryTest, NoWorkerGetsOurDescriptorForAClosedOne) {
  const std::string file = testing::TempDir() + "standard-descriptors-" + std::to_string(getpid());
  constexpr const char* kClosings[] = {" 0<&-", " 1>&-", " 2>&-"};
  for (unsigned closed = 1; closed < 8; ++closed) {
    std::string words =
        "run --no-python sh -c 'all=$(readlink /proc/$$$$/fd/0 /proc/$$$$/fd/1 /proc/$$$$/fd/2); echo \"$all\" >" +
        file + "' </dev/zero >/dev/zero 2>/dev/zero";
    for (unsigned fd = 0; fd <= 2; ++fd) words += ((closed >> fd) & 1) != 0 ? kClosings[fd] : "";
    EXPECT_EQ(Muster(words).exit_code, 0) << words;
    std::ifstream text(file);
    std::string targets[3];
    for (std::string& target : targets) {
      std::getline(text, target);
      EXPECT_THAT(target, AllOf(Not(HasSubstr("anon_inode")), Not(HasSubstr("socket")), Not(""))) << words;
    }
    EXPECT_EQ(targets[0], (closed & 1) != 0 ? "/dev/null" : "/dev/zero") << words;
    std::remove(file.c_str());
  }
}

TEST(BinaryTest, VersionIsOneLine) {
  EXPECT_THAT(Muster("version").output, testing::MatchesRegex("muster [0-9].*\n"));
}

TEST(BinaryTest, EnvPrintsOneJsonObjectAndStartsNothing) {
  const Ran ran = Muster("env --json");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.output.front(), '{');
  EXPECT_THAT(ran.output, HasSubstr("\"source\": \"single\""));
}

TEST(BinaryTest, LocalNodesRunAsOneJobWithPrefixedLines) {
  const Ran ran =
      Muster("local --nodes 2 --no-python --nproc-per-node 1 sh -c 'echo $RANK of $WORLD_SIZE' 2>/dev/null");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.output, HasSubstr("[node 0 rank 0] 0 of 2\n"));
  EXPECT_THAT(ran.output, HasSubstr("[node 1 rank 1] 1 of 2\n"));
}

TEST(BinaryTest, LocalExitsWithTheRootCausesCode) {
  const Ran ran = Muster(
      "local --nodes 2 --max-restarts 0 --no-python sh -c 'test $RANK = 0 || exit 9; exec sleep 60' 2>/dev/null");
  EXPECT_EQ(ran.exit_code, 9);
}

}  // namespace
}  // namespace muster
