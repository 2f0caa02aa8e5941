// Links to the session's CSV files; the server streams them.
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector('.downloads');
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--pd-${name}`, colour);
  data.files.forEach((file, index) => {
    let link = root.children[index];
    if (!link) {
      link = document.createElement('a');
      root.appendChild(link);
    }
    link.textContent = file.name;
    link.title = file.hint;
    link.classList.toggle('off', data.off);
    link.setAttribute('aria-disabled', String(data.off));
    if (data.off) link.removeAttribute('href');
    else link.href = `/export/${file.name}`;
    link.download = `${data.session}-${file.name}`;
  });
}
