/* Versions of functions that glibc 2.17 has, in place of the versions that the linker would take,
 * which only later ones have. They compute the same. */
#ifdef __aarch64__
#define WINOGEN_OLD(name) __asm__(".symver " #name ", " #name "@GLIBC_2.17")
#else
#define WINOGEN_OLD(name) __asm__(".symver " #name ", " #name "@GLIBC_2.2.5")
#endif
WINOGEN_OLD(exp);
WINOGEN_OLD(log);
WINOGEN_OLD(pow);
WINOGEN_OLD(expf);
WINOGEN_OLD(logf);
WINOGEN_OLD(powf);
WINOGEN_OLD(pthread_create);
WINOGEN_OLD(pthread_detach);
WINOGEN_OLD(pthread_getspecific);
WINOGEN_OLD(pthread_join);
WINOGEN_OLD(pthread_key_create);
WINOGEN_OLD(pthread_once);
WINOGEN_OLD(pthread_setspecific);
