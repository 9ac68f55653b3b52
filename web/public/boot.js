// Theme and language before the first paint, so that nothing flashes. A file of its own: the CSP allows no inline script.
(() => {
  const theme = localStorage.getItem('vueuse-color-scheme') || 'auto';
  const isDark = theme === 'dark' || (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.classList.toggle('dark', isDark);
  const language = localStorage.getItem('homard-language') || (navigator.language.startsWith('zh') ? 'zh' : 'en');
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
})();
