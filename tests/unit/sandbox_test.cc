// SPDX-License-Identifier: GPL-3.0-or-later
//
// The sandbox from inside: a child process enters it as the daemon does, tries everything that is
// forbidden from each kind of thread, and everything that serving needs.
#include "fuse/sandbox.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mapped_file.h"
#include "tests/support/temp_dir.h"

namespace cryptimg {
namespace {

// Waits for work, as a thread that serves does.
class Server {
 public:
  Server() : thread_([this] { run(); }) {}
  ~Server() {
    give({});
    thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Runs `work` on the thread and waits for it.
  void call(const std::function<void()>& work) {
    give(work);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
  }

 private:
  void give(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
    busy_ = true;
    changed_.notify_all();
  }
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return busy_; });
      if (!work_) {
        return;
      }
      work_();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool busy_ = false;
  std::thread thread_;
};

class SandboxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_sandbox()) {
      GTEST_SKIP() << "sanitizers need more than the sandbox leaves";
    }
    testing::write_file(dir_ / "file", std::string(8192, 'x'));
  }

  // In a child: what was opened before, a server thread, then the sandbox, then `work` on the main
  // thread and on the server. What `complain` is given comes back as text. `status` is the child's.
  using Complain = std::function<void(const std::string&)>;
  std::string confined(const std::function<void(int file, const Complain&)>& work, int& status) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      const int file = ::open((dir_ / "file").c_str(), O_RDWR | O_CLOEXEC);
      const Complain complain = [&](const std::string& text) {
        [[maybe_unused]] const ssize_t put =
            ::write(pipe[1], (text + "\n").data(), text.size() + 1);
      };
      std::unique_ptr<Server> server;
      if (!run_confined([&] { server = std::make_unique<Server>(); })) {
        complain("no thread");
      }
      const std::string achieved = enter_sandbox();
      if (achieved.find("filtered system calls") == std::string::npos) {
        complain("SKIP " + achieved);
      } else {
        work(file, complain);
        server->call([&] { work(file, complain); });
      }
      server.reset();
      ::_exit(0);
    }
    ::close(pipe[1]);
    std::string text;
    std::array<char, 512> piece{};
    for (ssize_t got = 1; got > 0;) {
      got = ::read(pipe[0], piece.data(), piece.size());
      text.append(piece.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    }
    ::close(pipe[0]);
    ::waitpid(child, &status, 0);
    return text;
  }

  testing::TempDir dir_;
};

#define SKIP_WITHOUT(text)                                   \
  if ((text).find("SKIP ") != std::string::npos) {           \
    GTEST_SKIP() << "the kernel has no seccomp: " << (text); \
  }

TEST_F(SandboxTest, ForbiddenCallsFail) {
  const std::string name = dir_ / "file";
  const std::string link = dir_ / "link";
  int status = 0;
  const std::string text = confined(
      [&](int file, const Complain& complain) {
        // As the daemon's threads have them.
        block_signals();
        const std::uint64_t before = refused_calls();
        struct {
          const char* what;
          long result;
          int error;
        } const tries[] = {
            {"open", ::open(name.c_str(), O_RDONLY), errno},
            {"open by /proc", ::open("/proc/self/mem", O_RDWR), errno},
            {"creat", ::creat(link.c_str(), 0600), errno},
            {"openat2", ::syscall(SYS_openat2, AT_FDCWD, name.c_str(), nullptr, 0), errno},
            {"stat by name", ::syscall(SYS_newfstatat, AT_FDCWD, name.c_str(), nullptr, 0), errno},
            {"link", ::link(name.c_str(), link.c_str()), errno},
            {"unlink", ::unlink(name.c_str()), errno},
            {"chmod", ::fchmod(file, 0777), errno},
            {"socket", ::socket(AF_UNIX, SOCK_STREAM, 0), errno},
            {"internet", ::socket(AF_INET, SOCK_DGRAM, 0), errno},
            {"connect", ::connect(file, nullptr, 0), errno},
            {"bind", ::bind(file, nullptr, 0), errno},
            {"send descriptors", ::sendmsg(file, nullptr, 0), errno},
            {"fork", ::fork(), errno},
            {"clone", ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr), errno},
            {"unshare", ::syscall(SYS_unshare, 0), errno},
            {"setns", ::syscall(SYS_setns, file, 0), errno},
            {"mount", ::syscall(SYS_mount, "a", "/", "tmpfs", 0, nullptr), errno},
            {"umount", ::syscall(SYS_umount2, "/nowhere", 0), errno},
            {"chroot", ::chroot("/"), errno},
            {"kill", ::kill(::getppid(), 0), errno},
            {"signal another", ::syscall(SYS_tgkill, 1, 1, 0), errno},
            {"prlimit", ::syscall(SYS_prlimit64, 0, 0, nullptr, nullptr), errno},
            {"ioctl", ::syscall(SYS_ioctl, file, 0, 0), errno},
            {"dumpable again", ::prctl(PR_SET_DUMPABLE, 1), errno},
            {"io_uring", ::syscall(SYS_io_uring_setup, 1, nullptr), errno},
            {"bpf", ::syscall(SYS_bpf, 0, nullptr, 0), errno},
            {"keyctl", ::syscall(SYS_keyctl, 0, 0), errno},
            {"userfaultfd", ::syscall(SYS_userfaultfd, 0), errno},
            {"memfd", ::memfd_create("m", 0), errno},
            {"code", ::mprotect(nullptr, 0, PROT_READ | PROT_EXEC), errno},
            {"mapped code",
             reinterpret_cast<long>(
                 ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
             errno},
        };
        for (const auto& each : tries) {
          if (each.result != -1 || each.error != EPERM) {
            complain(std::string(each.what) + ": " + std::to_string(each.result) + " " +
                     std::strerror(each.error));
          }
        }
        if (::syscall(SYS_clone3, nullptr, 0) != -1 || errno != ENOSYS) {
          complain("clone3");
        }
#if defined(__x86_64__)
        // Not fork and clone, but getppid too.
        if (refused_calls() - before != std::size(tries) - 2 + 1) {
          complain("counted " + std::to_string(refused_calls() - before));
        }
#endif
      },
      status);
  SKIP_WITHOUT(text);
  EXPECT_EQ(text, "");
  EXPECT_EQ(status, 0);
}

TEST_F(SandboxTest, ProgramsAndTracingEndTheProcess) {
  const std::function<void()> deadly[] = {
      [] { ::execl("/bin/true", "true", nullptr); },
      [] { ::syscall(SYS_execveat, AT_FDCWD, "/bin/true", nullptr, nullptr, 0); },
      [] { ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); },
      [] { ::syscall(SYS_process_vm_readv, 1, nullptr, 0, nullptr, 0, 0); },
  };
  for (const auto& call : deadly) {
    int status = 0;
    const std::string text = confined(
        [&](int, const Complain& complain) {
          call();
          complain("went on");
        },
        status);
    SKIP_WITHOUT(text);
    EXPECT_EQ(text, "");
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << status;
  }
}

TEST_F(SandboxTest, ServingWorks) {
  int status = 0;
  const std::string text = confined(
      [](int file, const Complain& complain) {
        std::array<char, 4096> page{};
        const iovec part = {page.data(), page.size()};
        void* const mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        void* const memory =
            ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct stat attributes = {};
        pollfd waiting = {file, POLLIN, 0};
        struct {
          const char* what;
          bool worked;
        } const tries[] = {
            {"pread", ::pread(file, page.data(), page.size(), 0) == 4096},
            {"pwrite", ::pwrite(file, page.data(), page.size(), 4096) == 4096},
            {"preadv", ::preadv(file, &part, 1, 0) == 4096},
            {"pwritev", ::pwritev(file, &part, 1, 0) == 4096},
            {"preadv2", ::preadv2(file, &part, 1, 0, 0) == 4096},
            {"fdatasync", ::fdatasync(file) == 0},
            {"fallocate", ::fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 4096) == 0},
            {"fstat", ::fstat(file, &attributes) == 0 && attributes.st_size == 8192},
            {"readahead", ::readahead(file, 0, 4096) == 0},
            {"fadvise", ::posix_fadvise(file, 0, 4096, POSIX_FADV_WILLNEED) == 0},
            {"mmap", mapped != MAP_FAILED && memory != MAP_FAILED},
            {"msync", ::msync(mapped, 4096, MS_SYNC) == 0},
            {"madvise", ::madvise(memory, 1 << 20, MADV_DONTNEED) == 0},
            {"mprotect", ::mprotect(memory, 4096, PROT_NONE) == 0},
            {"munmap", ::munmap(memory, 1 << 20) == 0 && ::munmap(mapped, 4096) == 0},
            {"poll", ::poll(&waiting, 1, 0) == 1},
            {"name", ::prctl(PR_SET_NAME, "name") == 0},
            {"getpid", ::getpid() > 0},
            {"signal itself", ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), 0) == 0},
        };
        for (const auto& each : tries) {
          if (!each.worked) {
            complain(std::string(each.what) + ": " + std::strerror(errno));
          }
        }
        const std::string large(std::size_t{4} << 20, 'x');  // malloc by mmap
        if (large.back() != 'x') {
          complain("memory");
        }
      },
      status);
  SKIP_WITHOUT(text);
  EXPECT_EQ(text, "");
  EXPECT_EQ(status, 0);
}

TEST_F(SandboxTest, ConfinedThreadsHaveNoCapabilitiesAndNoFiles) {
  const std::string name = dir_ / "file";
  std::string status;
  int opened = -2;
  int error = 0;
  const Status ran = run_confined([&] {
    std::thread([&] {
      opened = ::open(name.c_str(), O_RDONLY);
      error = errno;
      status = "NoNewPrivs " + std::to_string(::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    }).join();
  });
  ASSERT_TRUE(ran);
  EXPECT_EQ(status, "NoNewPrivs 1");
  if (opened >= 0) {
    ::close(opened);
    GTEST_SKIP() << "the kernel has no Landlock";
  }
  EXPECT_EQ(error, EACCES);
  // The rest of the process is as it was.
  EXPECT_EQ(::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);
  EXPECT_FALSE(testing::read_file(name).empty());
}

TEST_F(SandboxTest, WhatIsThrownComesOut) {
  EXPECT_THROW(static_cast<void>(run_confined([] { throw std::bad_alloc(); })), std::bad_alloc);
  const auto work = []() -> Result<int> { return fail(Errc::busy, "held"); };
  for (const bool is_confined : {false, true}) {
    const Result<int> result = start_threads(is_confined, work);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::busy);
  }
}

}  // namespace
}  // namespace cryptimg
