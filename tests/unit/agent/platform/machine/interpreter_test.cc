// Choice of the Python interpreter, and the check that it and the program can be started.
#include "agent/platform/machine/interpreter.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::machine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr FileState kExecutable{.exists = true, .is_directory = false, .readable = true, .executable = true};
constexpr FileState kPlain{.exists = true, .is_directory = false, .readable = true, .executable = false};
constexpr FileState kSecret{.exists = true, .is_directory = false, .readable = false, .executable = false};
constexpr FileState kDirectory{.exists = true, .is_directory = true, .readable = true, .executable = true};

FileProbe Files(std::map<std::string, FileState> files) {
  return [files = std::move(files)](const std::string& path) {
    const auto found = files.find(path);
    return found == files.end() ? FileState{} : found->second;
  };
}

// A machine with every source of a Python at once; the tests remove them one by one. The environment of /conda was
// left and is not on PATH; muster is called from a third one.
struct Machine {
  Environment environment = {{"PYTHON_EXEC", "/exec/python"},
                             {kCallerPython, "python"},
                             {"VIRTUAL_ENV", "/venv"},
                             {"CONDA_PREFIX", "/conda"},
                             {"PATH", "/first:/venv/bin:/second"}};
  InterpreterOptions options = {.python_flag = "/flag/python", .called_as = "/own/bin/muster"};
  std::map<std::string, FileState> files = {{"/own/bin/muster", kExecutable},   {"/own/bin/python", kExecutable},
                                            {"/own/pyvenv.cfg", kPlain},        {"/venv/bin/python", kExecutable},
                                            {"/conda/bin/python", kExecutable}, {"/second/python", kExecutable}};

  Interpreter Choose() const { return ChooseInterpreter(environment, options, Files(files)); }
};

Machine WithoutOptions() {
  Machine machine;
  machine.environment.erase("PYTHON_EXEC");
  machine.environment.erase(kCallerPython);
  machine.options.python_flag.clear();
  return machine;
}

TEST(Interpreter, TheOrderIsFlagExecCallerActiveCalledPathBeside) {
  Machine machine;
  EXPECT_EQ(machine.Choose().path, "/flag/python");
  machine.options.python_flag.clear();
  EXPECT_EQ(machine.Choose().path, "/exec/python");
  machine.environment.erase("PYTHON_EXEC");
  EXPECT_EQ(machine.Choose().path, "/venv/bin/python") << "as PATH leads to the caller's name";
  machine.environment[kCallerPython] = "/own/bin/python";
  EXPECT_EQ(machine.Choose().path, "/own/bin/python");
  machine.environment.erase(kCallerPython);
  EXPECT_EQ(machine.Choose().path, "/venv/bin/python");
  machine.environment.erase("VIRTUAL_ENV");
  EXPECT_EQ(machine.Choose().path, "/own/bin/python");
  machine.files.erase("/own/pyvenv.cfg");
  EXPECT_EQ(machine.Choose().path, "/venv/bin/python");
  machine.files.erase("/venv/bin/python");
  EXPECT_EQ(machine.Choose().path, "/second/python");
  machine.files.erase("/second/python");
  EXPECT_EQ(machine.Choose().path, "/own/bin/python");
  machine.files.erase("/own/bin/python");
  EXPECT_THAT(machine.Choose().path, IsEmpty()) << "/conda is not active";
}

TEST(Interpreter, TheReasonIsOneSentenceWithThePath) {
  Machine machine;
  EXPECT_EQ(machine.Choose().reason, "python is /flag/python: set by --python");
  machine.options.python_flag.clear();
  EXPECT_EQ(machine.Choose().reason, "python is /exec/python: set by PYTHON_EXEC");
  machine.environment.erase("PYTHON_EXEC");
  EXPECT_EQ(machine.Choose().reason,
            "python is /venv/bin/python: it is that of the launcher, or of python -m muster");
  machine.environment.erase(kCallerPython);
  EXPECT_EQ(machine.Choose().reason, "python is /venv/bin/python: $VIRTUAL_ENV is active");
  machine.environment.erase("VIRTUAL_ENV");
  EXPECT_EQ(machine.Choose().reason, "python is /own/bin/python: muster was called from its environment, /own");
  machine.files.erase("/own/pyvenv.cfg");
  EXPECT_EQ(machine.Choose().reason, "python is /venv/bin/python: it is the first on PATH");
  machine.environment["PATH"] = "/none";
  EXPECT_EQ(machine.Choose().reason, "python is /own/bin/python: it is in the same folder as muster");
}

TEST(Interpreter, OnlyTheEnvironmentOfTheShellsPythonIsActive) {
  Machine machine = WithoutOptions();
  machine.files.erase("/own/pyvenv.cfg");
  machine.environment["PATH"] = "/second:/venv/bin:/conda/bin";
  EXPECT_EQ(machine.Choose().reason, "python is /second/python: it is the first on PATH");
  machine.environment["PATH"] = "/conda//bin/:/venv/bin";
  machine.files["/conda//bin/python"] = kExecutable;
  EXPECT_EQ(machine.Choose().reason, "python is /conda//bin/python: $CONDA_PREFIX is active");
}

TEST(Interpreter, CalledByNameMusterIsFoundOnPath) {
  Machine machine = WithoutOptions();
  machine.environment = {{"PATH", "/second:/own/bin"}};
  machine.options.called_as = "muster";
  EXPECT_EQ(machine.Choose().path, "/own/bin/python");
  machine.files["/second/muster"] = kExecutable;
  EXPECT_EQ(machine.Choose().path, "/second/python");
}

TEST(Interpreter, ARelativePathHasItsEnvironmentAboveIt) {
  const std::pair<const char*, const char*> calls[] = {{"./muster", ".."},
                                                       {"bin/muster", "."},
                                                       {"../env/bin/muster", "../env"},
                                                       {"a/../muster", ".."},
                                                       {"/muster", "/"}};
  for (const auto& [called_as, above] : calls) {
    Machine machine = WithoutOptions();
    machine.environment.clear();
    machine.options.called_as = called_as;
    const std::string python = std::string(called_as).substr(0, std::string(called_as).rfind('/')) + "/python";
    const std::string mark = above == std::string("/") ? "/conda-meta" : std::string(above) + "/conda-meta";
    machine.files = {{python, kExecutable}, {mark, kDirectory}};
    EXPECT_EQ(machine.Choose().reason,
              "python is " + python + ": muster was called from its environment, " + above);
  }
}

TEST(Interpreter, InOneDirectoryPythonComesBeforePython3) {
  Machine machine = WithoutOptions();
  machine.files["/venv/bin/python3"] = kExecutable;
  EXPECT_EQ(machine.Choose().path, "/venv/bin/python");
}

TEST(Interpreter, UnusableCandidatesAreSkipped) {
  Machine machine = WithoutOptions();
  machine.files["/first/python"] = kPlain;
  machine.files["/venv/bin/python"] = kDirectory;
  machine.files["/venv/bin/python3"] = kExecutable;
  EXPECT_EQ(machine.Choose().path, "/venv/bin/python3");
}

TEST(Interpreter, EmptyVariablesCountAsUnset) {
  Machine machine;
  machine.environment = {{"PYTHON_EXEC", ""}, {"VIRTUAL_ENV", ""}, {"CONDA_PREFIX", ""}, {"PATH", "/second"}};
  machine.options = {};
  machine.files["/bin/python"] = kExecutable;  // what "" + /bin/python would find
  EXPECT_EQ(machine.Choose().path, "/second/python");
}

TEST(Interpreter, WithoutPathDefaultFoldersAreSearched) {
  Machine machine;
  machine.environment = {};
  machine.options = {};
  machine.files["/usr/bin/python3"] = kExecutable;
  EXPECT_EQ(machine.Choose().path, "/usr/bin/python3");
  machine.environment = {{"PATH", "/none:"}};
  machine.files["./python"] = kExecutable;
  EXPECT_EQ(machine.Choose().path, "./python");
}

// ---- CheckProgram ----

const Interpreter kPython = {"/bin/python", "python is /bin/python: --python says so"};

void ExpectFailure(const ProgramCheck& check, int exit_code, const std::string& fragment) {
  EXPECT_EQ(check.exit_code, exit_code);
  EXPECT_THAT(check.problem, HasSubstr(fragment));
  EXPECT_THAT(check.problem, Not(HasSubstr("\n")));
  EXPECT_THAT(check.path, IsEmpty());
}

ProgramCheck Script(const std::string& script, std::map<std::string, FileState> files) {
  files.emplace("/bin/python", kExecutable);
  return CheckProgram(ProgramKind::kScript, script, kPython, {}, Files(std::move(files)));
}

TEST(CheckProgram, AReadableScriptNeedsNoExecuteBit) {
  const ProgramCheck check = Script("train.py", {{"train.py", kPlain}});
  EXPECT_EQ(check.exit_code, 0);
  EXPECT_EQ(check.path, "/bin/python");
  EXPECT_THAT(check.problem, IsEmpty());
}

TEST(CheckProgram, AMissingScriptIs127AndAnUnreadableOne126) {
  ExpectFailure(Script("train.py", {}), kExitNotFound, "the script train.py does not exist");
  ExpectFailure(Script("\x1b[1m\xff.py", {}), kExitNotFound, R"(the script \x1b[1m\xff.py does not exist)");
  ExpectFailure(Script("train.py", {{"train.py", kSecret}}), kExitNotExecutable, "may not be read");
}

TEST(CheckProgram, ADirectoryNeedsAMain) {
  ExpectFailure(Script("pkg", {{"pkg", kDirectory}}), kExitNotExecutable, "__main__.py");
  EXPECT_EQ(Script("pkg/", {{"pkg/", kDirectory}, {"pkg/__main__.py", kPlain}}).exit_code, 0);
}

TEST(CheckProgram, AScriptFromStandardInputIsNotLookedFor) { EXPECT_EQ(Script("-", {}).exit_code, 0); }

TEST(CheckProgram, TheInterpreterIsCheckedFirstAndForModulesAlone) {
  const auto check = [](ProgramKind kind, const Interpreter& interpreter, std::map<std::string, FileState> files) {
    return CheckProgram(kind, "x", interpreter, {{"PATH", "/p"}}, Files(std::move(files)));
  };
  for (const ProgramKind kind : {ProgramKind::kScript, ProgramKind::kModule}) {
    ExpectFailure(check(kind, kPython, {{"x", kPlain}}), kExitNotFound, "/bin/python does not exist (python is");
    ExpectFailure(check(kind, kPython, {{"x", kPlain}, {"/bin/python", kPlain}}), kExitNotExecutable,
                  "/bin/python may not be executed");
    ExpectFailure(check(kind, kPython, {{"x", kPlain}, {"/bin/python", kDirectory}}), kExitNotExecutable,
                  "/bin/python may not be executed");
    ExpectFailure(check(kind, {"", "no python was found"}, {{"x", kPlain}}), kExitNotFound, "no python was found");
  }
  EXPECT_EQ(check(ProgramKind::kModule, kPython, {{"/bin/python", kExecutable}}).exit_code, 0);
  EXPECT_EQ(check(ProgramKind::kModule, {"python3.11", "r"}, {{"/p/python3.11", kExecutable}}).path,
            "/p/python3.11");
}

ProgramCheck Program(const std::string& program, std::map<std::string, FileState> files) {
  return CheckProgram(ProgramKind::kProgram, program, {"", "unused"}, {{"PATH", "/a:/b"}},
                      Files(std::move(files)));
}

TEST(CheckProgram, AProgramWithASlashIsUsedAsGiven) {
  EXPECT_EQ(Program("./train.sh", {{"./train.sh", kExecutable}}).path, "./train.sh");
  ExpectFailure(Program("./train.sh", {}), kExitNotFound, "./train.sh does not exist");
  ExpectFailure(Program("./\x1b[1m\xff", {}), kExitNotFound, R"(the program ./\x1b[1m\xff does not exist)");
  ExpectFailure(Program("./train.sh", {{"./train.sh", kPlain}}), kExitNotExecutable, "chmod +x");
  ExpectFailure(Program("./dir", {{"./dir", kDirectory}}), kExitNotExecutable, "is a directory");
}

TEST(CheckProgram, AProgramWithoutASlashIsSearchedOnPath) {
  EXPECT_EQ(Program("tool", {{"/a/tool", kExecutable}, {"/b/tool", kExecutable}}).path, "/a/tool");
  EXPECT_EQ(Program("tool", {{"/a/tool", kPlain}, {"/b/tool", kExecutable}}).path, "/b/tool");
  EXPECT_EQ(Program("tool", {{"/a/tool", kDirectory}, {"/b/tool", kExecutable}}).path, "/b/tool");
  ExpectFailure(Program("tool", {{"/a/tool", kPlain}}), kExitNotExecutable, "/a/tool is not executable");
  ExpectFailure(Program("tool", {{"/a/tool", kDirectory}}), kExitNotFound, "not on PATH");
  ExpectFailure(Program("tool", {}), kExitNotFound, "tool is not on PATH");
  ExpectFailure(Program("", {}), kExitNotFound, "is not on PATH");
}

TEST(CheckProgram, AProgramInThisFolderGetsAHint) {
  ExpectFailure(Program("train.sh", {{"train.sh", kExecutable}}), kExitNotFound, "write ./train.sh");
}

// ---- The real probe ----

class ProbeFileTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(directory_.data()), nullptr); }
  void TearDown() override {
    unlink(Path("file").c_str());
    unlink(Path("dangling").c_str());
    rmdir(directory_.c_str());
  }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  std::string directory_ = ::testing::TempDir() + "muster-probe-XXXXXX";
};

TEST_F(ProbeFileTest, SeesFilesDirectoriesAndTheExecuteBit) {
  EXPECT_FALSE(ProbeFile(Path("file")).exists);
  std::ofstream(Path("file")) << "x";
  chmod(Path("file").c_str(), 0600);
  EXPECT_TRUE(ProbeFile(Path("file")).exists);
  EXPECT_TRUE(ProbeFile(Path("file")).readable);
  EXPECT_FALSE(ProbeFile(Path("file")).executable);
  chmod(Path("file").c_str(), 0700);
  EXPECT_TRUE(ProbeFile(Path("file")).executable);
  EXPECT_FALSE(ProbeFile(Path("file")).is_directory);
  EXPECT_TRUE(ProbeFile(directory_).is_directory);
}

TEST_F(ProbeFileTest, ALinkToNothingIsNotThere) {
  ASSERT_EQ(symlink("nowhere", Path("dangling").c_str()), 0);
  EXPECT_FALSE(ProbeFile(Path("dangling")).exists);
}

}  // namespace
}  // namespace muster::machine
