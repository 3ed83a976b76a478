/* Memory that tells who goes beyond it: loaded before genuine Caffe2 (LD_PRELOAD) by tools/differential.py.

   After guard_memory(fill, low) every allocation has pages of its own, with a page next to it that nobody may touch:
   behind it, or before it where `low`.  It is filled with `fill`, which is also in the few bytes up to the page where an
   alignment asks for some; these are looked at when it is freed, and by guard_check().  What is freed may not be touched
   either.  So a process ends that reads or writes beyond an allocation, and one that reads what nobody wrote answers by
   the fill. */

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096UL
#define SPACE (3UL << 30)

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static char *space, *next;
static int on, filling, low_side;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct head {
  size_t size;
  char *start, *first, *end; /* the data, and the pages that it lies in */
};
static struct head heads[SPACE / PAGE]; /* by the page in which the data begin */

static int ours(const void *p) { return space && (char *)p >= space && (char *)p < space + SPACE; }

static struct head *head_of(const void *p) { return &heads[((char *)p - space) / PAGE]; }

static void *guarded(size_t align, size_t size) {
  if (align < 16) align = 16;
  size_t body = (size + PAGE) & ~(PAGE - 1); /* one byte at least; alignments are no larger than a page */
  pthread_mutex_lock(&lock);
  char *first = next + PAGE;
  next = first + body;
  pthread_mutex_unlock(&lock);
  if (align > PAGE || size > SPACE || first + body + PAGE > space + SPACE ||
      mprotect(first, body, PROT_READ | PROT_WRITE)) {
    errno = ENOMEM;
    return NULL;
  }
  memset(first, filling, body);
  char *start = low_side ? first : (char *)((uintptr_t)(first + body - size) & ~(align - 1));
  *head_of(start) = (struct head){size, start, first, first + body};
  return start;
}

static int kept(const struct head *h) { /* whether nobody wrote beside the data */
  for (char *c = h->first; c < h->end; c++)
    if (*c != (char)filling && (c < h->start || c >= h->start + h->size)) return 0;
  return 1;
}

static void release(void *p) {
  struct head *h = head_of(p);
  if (h->start != p || !kept(h)) abort();
  mprotect(h->first, h->end - h->first, PROT_NONE);
  h->start = NULL;
}

void guard_check(void) { /* what is still there, at the end */
  for (size_t i = 0; i < (size_t)(next - space) / PAGE; i++)
    if (heads[i].start && !kept(&heads[i])) abort();
}

void guard_memory(int fill, int low) {
  space = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) abort();
  next = space; filling = fill; low_side = low; on = 1;
}

void *malloc(size_t size) { return on ? guarded(16, size) : __libc_malloc(size); }

void *calloc(size_t n, size_t size) {
  size_t all;
  if (!on) return __libc_calloc(n, size);
  if (__builtin_mul_overflow(n, size, &all)) { errno = ENOMEM; return NULL; }
  void *p = guarded(16, all);
  return p ? memset(p, 0, all) : NULL;
}

void free(void *p) {
  if (ours(p)) release(p); else __libc_free(p);
}

void *realloc(void *p, size_t size) {
  if (!on && !ours(p)) return __libc_realloc(p, size);
  size_t had = !p ? 0 : ours(p) ? head_of(p)->size : malloc_usable_size(p);
  void *q = guarded(16, size);
  if (q && p) { memcpy(q, p, had < size ? had : size); free(p); }
  return q;
}

int posix_memalign(void **out, size_t align, size_t size) {
  *out = on ? guarded(align, size) : __libc_memalign(align, size);
  return *out ? 0 : ENOMEM;
}

void *memalign(size_t align, size_t size) { return on ? guarded(align, size) : __libc_memalign(align, size); }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
